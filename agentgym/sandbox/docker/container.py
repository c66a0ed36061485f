"""One hardened container: its settings at creation, the limit on its socket buffers, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from agentgym.sandbox.docker.daemon import Daemon, DockerImage
from agentgym.sandbox.docker.rendezvous import GuestPython
from agentgym.sandbox.guest import container_main, oom_score
from agentgym.sandbox.guest.frames import LINKED
from agentgym.sandbox.host.guest_handle import GuestHandle
from agentgym.sandbox.host.host_python import ROOT_VARIABLES, python_environment
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.link import Link
from agentgym.sandbox.network.proxy import environment_for
from agentgym.sandbox.rootfs.programs import locate_program

_MIB = 2**20
_GUEST_MEMORY = 32 * _MIB  # reserved for the guest, so that files in memory cannot use it up
_KERNEL_MEMORY, _KERNEL_THREADS = 128 * _MIB, 128  # memory and threads for a runtime's own kernel
_PAGE = 4096
_PENDING_SIGNALS = 1024  # signals and timers of all containers together, because the kernel counts them per user
# A container cannot mount one tmpfs at three places, so each place gets a share of the spec's disk and inodes.
_AREAS = {"/work": (11 / 16, "0755"), "/tmp": (4 / 16, "1777"), "/dev/shm": (1 / 16, "1777")}
_EMPTY = "ro,size=4k"
_BOOT = (
    f"import sys; sys.path[0] = {container_main.FOLDER!r}; from guest import container_main; del sys.path[0]; "
    "container_main.main()"
)
_AGENT = 1000


class ContainerRuntime(NamedTuple):
    """The container runtime: one that the daemon knows by name, or the daemon's default."""

    name: str | None
    own_kernel: bool
    """Whether the runtime has its own kernel (gVisor), which takes memory and threads on the host, and counts
    processes per user like a separate machine."""


def settings(
    spec: SandboxSpec,
    image: DockerImage,
    runtime: ContainerRuntime,
    *,
    code: Path,
    rendezvous: Path,
    python: GuestPython | None,
    labels: dict[str, str],
    options: list[str],
    cores: int,
) -> dict[str, Any]:
    """Return the settings for the daemon: only what the guest needs, and every limit of the spec.

    Args:
        code, rendezvous: host directories with the guest's sources, and with the socket that the guest connects to.
        python: the guest's own Python, for a writable root; None for the image's.
        options: further security options. cores: the cores of the machine; Docker refuses to grant more.
    """
    memory = max(spec.memory_mib * _MIB, spec.disk_mib * _MIB + _GUEST_MEMORY)
    limits = {"nofile": max(spec.open_files, 32), "fsize": spec.disk_mib * _MIB, "memlock": 65_536, "msgqueue": 0}
    limits["sigpending"] = _PENDING_SIGNALS
    processes = spec.processes + 1
    if runtime.own_kernel:
        limits["nproc"] = processes
        processes, memory = _KERNEL_THREADS + 4 * processes, memory + _KERNEL_MEMORY
    capabilities, areas = container_main.START_CAPABILITIES, {p: _tmpfs(spec, *part) for p, part in _AREAS.items()}
    binds = {container_main.FOLDER: code, container_main.SOCKET_FOLDER: rendezvous}
    binds |= {program.inside: program.folder for program in map(locate_program, spec.programs)}
    home = {}
    if python is not None:
        home = {"PYTHONHOME": container_main.OWN}
        capabilities = container_main.ROOT_START_CAPABILITIES
        areas = {container_main.FILES: _tmpfs(spec, 1, "0755", user=0, own_inodes=container_main.FILES_INODES)}
        areas |= dict.fromkeys(python.hidden, _EMPTY)
        binds |= {container_main.OWN: python.folder, python.library_inside: python.library}
    limits["core"] = 1  # with 0 the kernel would still start the host's crash handler
    return {
        "Image": image.digest,
        "Entrypoint": python.command if python is not None else ["python3"],
        "Cmd": ["-s", "-B", "-X", "utf8", "-c", _BOOT],
        "Env": [f"{name}={value}" for name, value in {**environment(spec, image), **LINKED, **home}.items()],
        "User": "0:0",
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Labels": labels,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "AutoRemove": True,
            "Init": False,  # the guest is process 1 and reaps children
            "Runtime": runtime.name or "",
            "CapDrop": ["ALL"],
            "CapAdd": list(capabilities),
            "SecurityOpt": ["no-new-privileges", *options],  # the daemon's seccomp filter stays; the guest adds its own
            "ReadonlyRootfs": True,
            # /proc too, against agents that change their oom_score_adj; only if this process hands the guest its own
            **({"ReadonlyPaths": ["/proc"]} if os.geteuid() == 0 and not runtime.own_kernel else {}),
            "Tmpfs": {
                **dict.fromkeys(image.volumes, _EMPTY),  # otherwise each volume would be an unbounded disk
                "/sys/kernel": _EMPTY,  # Docker shows addresses of the host's kernel in this folder
                **areas,
            },
            "Mounts": [
                {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": True}
                for target, source in binds.items()
            ],
            "NetworkMode": "none",
            "Dns": ["127.0.0.1"],  # otherwise the host's name servers would be visible
            "IpcMode": "none",  # a private namespace without Docker's /dev/shm, which has no limit on inodes
            "CgroupnsMode": "private",
            "Memory": memory,
            "MemorySwap": memory,
            "NanoCpus": int(min(spec.cpu_cores, cores) * 1e9),
            "PidsLimit": processes,
            "OomScoreAdj": oom_score.of_guest(memory, _GUEST_MEMORY),
            "Ulimits": [{"Name": name, "Soft": most, "Hard": most} for name, most in limits.items()],
            "LogConfig": {"Type": "none"},
        },
    }


def environment(spec: SandboxSpec, image: DockerImage) -> dict[str, str]:
    """Return the environment variables inside: the image's, ours and the spec's; none of the host's."""
    ours = python_environment(packages=False)
    del ours["PATH"]
    own = {**ROOT_VARIABLES, **image.environment} if spec.writable_root else {**image.environment, **ours}
    return {
        "PATH": f"/usr/local/bin:/usr/bin:{'/usr/sbin:/sbin:' if spec.writable_root else ''}/bin",
        **own,
        **environment_for(spec.network),
        **dict(spec.environment),
    }


def _tmpfs(spec: SandboxSpec, share: float, mode: str, user: int = _AGENT, own_inodes: int = 1) -> str:
    size = int(spec.disk_mib * _MIB * share) // _PAGE * _PAGE
    inodes = int(spec.inodes * share) + own_inodes  # one inode is for the area's root directory
    return f"rw,nosuid,nodev,exec,size={size},nr_inodes={inodes},mode={mode},uid={user},gid={user}"


class ContainerHandle(GuestHandle):
    """A guest in a container. When its link is closed the guest ends, and the daemon removes the container."""

    def __init__(self, link: Link, daemon: Daemon, name: str, image: DockerImage) -> None:
        self.link, self.missing, self.image_digest = link, {}, image.digest
        self.base_snapshot = None
        self._daemon, self.name = daemon, name
        self._removal: Future[None] | None = None

    async def spawner_report(self) -> None:
        """Return None: containers have no spawner."""

    async def _memory_ran_out(self) -> bool:
        return await asyncio.wrap_future(self._daemon.submit(self._daemon.ran_out_of_memory, self.name))

    async def close(self) -> None:
        """Kill everything, and wait until the daemon has removed the container. Call again after a failure.

        Raises: SandboxError if the daemon cannot remove it.
        """
        self.link.close("The sandbox was closed.")
        if self._removal is None or (self._removal.done() and self._removal.exception() is not None):
            self._removal = self._daemon.submit(self._daemon.remove, self.name)
        try:
            await asyncio.shield(asyncio.wrap_future(self._removal))
        finally:
            await self.close_network()

    def forget(self) -> None:
        self.link.forget()


_GROUPS = Path("/sys/fs/cgroup/memory")
_FILE = "memory.kmem.tcp.limit_in_bytes"  # counts UDP too, despite its name


def bound_socket_buffers(guest: socket.socket, memory: int) -> None:
    """Limit a container's socket buffers to `memory` bytes, before agent code runs; runc does not.

    Control groups version 2 counts socket buffers as memory. Version 1 has a separate limit, without which a container
    could fill gigabytes with data that no process reads.

    Does nothing without root, or if the daemon's control groups are not visible.

    Args:
        guest: the connection of the container's process 1, a unix socket.
    """
    pid, _, _ = struct.unpack("3i", guest.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                (_GROUPS / path.strip("/") / _FILE).write_text(str(memory))


@contextlib.contextmanager
def oom_score_of_peer(connection: socket.socket) -> Iterator[list[int]]:
    """Return a descriptor of the oom_score_adj of the process at the other end, if this process may open it.

    The guest needs it, because it only sees a read-only /proc. Opening fails without root, or if the daemon is in
    another pid namespace.
    """
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    try:
        descriptors = [os.open(f"/proc/{pid}/oom_score_adj", os.O_RDWR)]
    except OSError:
        descriptors = []
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
