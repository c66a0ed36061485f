"""From a fresh process in fresh namespaces to a confined guest: private mounts, limits, no privileges."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import socket
import struct
from typing import Any

from . import kernel, seccomp
from .root import AGENT_ID

NAMESPACES = (
    kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
)  # fmt: skip


def confine(spec: dict[str, Any]) -> None:
    """Give up everything, in the order that lets each step still do its work. No payload has run before this ends."""
    with contextlib.suppress(PermissionError):  # denied where an ordinary user mapped themselves; nothing to drop then
        os.setgroups([])
    os.setresgid(AGENT_ID, AGENT_ID, AGENT_ID)
    os.setresuid(AGENT_ID, AGENT_ID, AGENT_ID)
    kernel.die_with_parent()  # after the change of user, which clears it
    if 0 in os.getresuid() or os.getppid() != 0:
        raise PermissionError(f"still user {os.getresuid()}, parent {os.getppid()}: refusing to run anything")
    if spec["cgroups"]:
        kernel.unshare(kernel.CLONE_NEWCGROUP)
    _mount_private(spec)
    _raise_loopback()
    kernel.set_host_name(b"sandbox")
    os.chdir("/work")
    _limit(spec)
    kernel.drop_capabilities()
    kernel.forgo_new_privileges()
    kernel.install_filter(seccomp.program())
    kernel.set_dumpable(False)


def _mount_private(spec: dict[str, Any]) -> None:
    """One bounded file system for everything writable: /work, /tmp and /dev/shm are three directories of it."""
    plain = kernel.MS_NOSUID | kernel.MS_NODEV
    size, inodes = spec["disk"], spec["inodes"] + 4  # four directories are ours, not the agent's
    kernel.mount("tmpfs", "/tmp", "tmpfs", plain, f"size={size},nr_inodes={inodes},mode=0755")
    for name, mode, target in (("work", 0o755, "/work"), ("shm", 0o1777, "/dev/shm"), ("tmp", 0o1777, "/tmp")):
        os.mkdir(f"/tmp/{name}")
        os.chmod(f"/tmp/{name}", mode)
        kernel.mount(f"/tmp/{name}", target, None, kernel.MS_BIND)  # /tmp last: it covers the file system's own root
    kernel.mount("proc", "/proc", "proc", plain | kernel.MS_NOEXEC)
    kernel.mount("/proc/sys", "/proc/sys", None, kernel.MS_BIND)
    kernel.set_mount("/proc/sys", kernel.MOUNT_ATTR_RDONLY)
    for name in ("keys", "key-users"):
        with contextlib.suppress(FileNotFoundError):
            kernel.mount("/dev/null", f"/proc/{name}", None, kernel.MS_BIND)
    terminals = "newinstance,ptmxmode=0666,mode=0620"
    kernel.mount("devpts", "/dev/pts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC, terminals)


def _raise_loopback() -> None:
    """The sandbox's own 127.0.0.1, so that programs may talk to themselves; it leads nowhere else."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        set_flags, up_and_running = 0x8914, 0x41
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", up_and_running))


def _limit(spec: dict[str, Any]) -> None:
    limits = {
        resource.RLIMIT_NOFILE: max(spec["open_files"], 32),  # the guest lives under it too
        resource.RLIMIT_NPROC: spec["processes"] + 1,
        resource.RLIMIT_FSIZE: spec["disk"],
        resource.RLIMIT_CORE: 1,  # not 0, with which the kernel still starts the host's crash handler
        resource.RLIMIT_MEMLOCK: 65_536,
    }
    if spec["address_space"]:
        limits[resource.RLIMIT_AS] = spec["address_space"] + own_address_space()
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def own_address_space() -> int:
    """Bytes of address space that this process has now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
