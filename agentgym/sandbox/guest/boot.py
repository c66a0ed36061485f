"""Turns a fresh process in new namespaces into a confined guest: private mounts, limits, no privileges.

The spawner lists the system calls, the process executes them. No agent code has run before the last of them.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from . import identity, kernel, mounts, seccomp, syscalls
from .syscalls import Syscall, syscall

NAMESPACES = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
)
# Descriptors used only during set-up, and so not by the zygote: those passed with the request from RECEIVED on, ...
_WATCHED, _CHANGES, _MEMORY, _OOM_SCORE, RECEIVED = 180, 181, 182, 184, 190
_LAYERS = RECEIVED + 1  # the mounts of the layers follow the control socket
HIGHEST_DESCRIPTOR = 255  # ... up to here ...
CONTROL, SPAWNER, MEMORY, CHANGES, OOM_SCORE = 3, 4, (5, 6), 7, 8  # ... and those that remain at the end
ROOT_CAPABILITIES = (1,)  # CAP_DAC_OVERRIDE: root by name may read and write its files whatever their mode
_TERMINALS = 32  # a sandbox's share of the 3,072 terminals that the kernel keeps for users other than the host's own
_PENDING_SIGNALS = 256  # signals and timers; the kernel also counts them over all sandboxes, for the spawner's user


def confine(
    spec: dict[str, Any], greeting: bytes, spawner: int, joining: Iterable[Syscall], memory: Sequence[tuple[int, str]]
) -> Iterator[Syscall]:
    """Yield the system calls that confine a guest. They give up all privileges, in an order in which each call
    succeeds.

    The last call's result says whether the spawner has ended.

    Args:
        spec: the host's request, with `cgroups`: whether there are control groups, and `oom_score`: the guest's score.
        greeting: the message to the host, over the socket that came with the request, which becomes `CONTROL`.
        spawner: a pidfd of the spawner, which becomes `SPAWNER`.
        joining: calls that join the control groups.
        memory: folder and path of the files with the memory counters, which become `MEMORY`.
    """
    yield syscall("dup3", spawner, _WATCHED, os.O_CLOEXEC)
    yield from joining
    for number, (folder, path) in enumerate(memory, _MEMORY):
        yield from syscalls.open_as(number, path, os.O_RDONLY, folder)
    root = (len(spec["root"]), bool(spec["programs"])) if "root" in spec else None
    yield from _confine_joined(
        bool(spec["cgroups"]), len(spec["layers"]), len(memory), greeting, root, *(spec[name] for name in _LIMITS)
    )


_LIMITS = ("oom_score", "writable", "inodes", "open_files", "processes", "disk", "address_space")


@lru_cache(maxsize=64)
def _confine_joined(
    cgroups: bool,
    layers: int,
    memory_files: int,
    greeting: bytes,
    root: tuple[int, bool] | None,
    oom_score: int,
    writable: int,
    inodes: int,
    *limits: int,
) -> tuple[Syscall, ...]:
    """Return the calls of `confine` after the control groups are joined.

    They are cached, because listing them takes longer than executing them.

    Args:
        root: for a writable root, the number of the image's layers, and whether there are agent programs.
    """
    if root is not None:
        layers += root[0]
    descriptors = {CONTROL: RECEIVED, SPAWNER: _WATCHED, OOM_SCORE: _OOM_SCORE}
    descriptors |= dict(zip(MEMORY, range(_MEMORY, _MEMORY + memory_files)))  # noqa: B905
    if layers:
        descriptors[CHANGES] = _CHANGES
    return (
        # opened now, because the sandbox's own /proc will be read-only
        *syscalls.open_as(_OOM_SCORE, "/proc/self/oom_score_adj", os.O_RDWR),
        syscall("write", _OOM_SCORE, b"%d" % oom_score, len(b"%d" % oom_score)),
        *syscalls.become_user(identity.AGENT),
        *([syscall("unshare", kernel.CLONE_NEWCGROUP)] if cgroups else ()),
        syscall("chdir", "/proc/self/fd"),
        *mounts.mount(writable, inodes, range(_LAYERS, _LAYERS + layers), _CHANGES, whole_root=root is not None),
        *_mount_kernel_files(),
        *(mounts.enter_overlay(programs=root[1]) if root is not None else ()),
        *syscalls.raise_loopback(),
        syscall("sethostname", "sandbox", len("sandbox")),
        syscall("chdir", "/work"),
        *_limit(*limits),
        *_drop_privileges(),
        *_keep_descriptors(descriptors),
        syscall("write", CONTROL, greeting, len(greeting)),
        syscalls.poll_readable(SPAWNER, wait=False),
    )


def confine_builder(order: dict[str, Any], spawner: int) -> Iterator[Syscall]:
    """Yield the system calls that confine a builder: the process that unpacks an archive into a layer, its current
    directory. The archive may be hostile.

    The request passes three descriptors: the archive (it becomes `CONTROL`), a pipe for the result (it becomes
    `MEMORY[0]`), and the layer's mount. The last call's result says whether the spawner has ended.
    """
    yield syscall("dup3", spawner, _WATCHED, os.O_CLOEXEC)
    yield from syscalls.become_user(identity.AGENT)
    yield syscalls.move_mount(RECEIVED + 2, "/work")
    yield syscalls.mount(
        "tmpfs", mounts.LAYER_STORE, "tmpfs", kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV, "size=4k"
    )
    yield syscall("chdir", "/work")
    yield from _limit(*(order[name] for name in _LIMITS[3:]))
    yield from _drop_privileges()
    yield from _keep_descriptors({CONTROL: RECEIVED, SPAWNER: _WATCHED, MEMORY[0]: RECEIVED + 1})
    yield syscalls.poll_readable(SPAWNER, wait=False)


def _drop_privileges() -> Iterator[Syscall]:
    yield syscalls.die_with_parent()  # set after the change of user, which would reset it
    as_root = identity.is_root_by_name()
    capabilities = ROOT_CAPABILITIES if as_root else ()
    yield from syscalls.drop_privileges(kernel.filter_at(seccomp.program(as_root=as_root)), capabilities, capabilities)


def _keep_descriptors(wanted_descriptors: dict[int, int]) -> Iterator[Syscall]:
    """Move these descriptors to the numbers that are their keys, and close all others."""
    for number, descriptor in wanted_descriptors.items():
        yield syscall("dup3", descriptor, number, os.O_CLOEXEC)
    for standard in (0, 2):
        yield syscall("dup3", 1, standard, 0)  # /dev/null
    yield from syscalls.close_others(wanted_descriptors)


def _mount_kernel_files() -> Iterator[Syscall]:
    plain = kernel.MS_NOSUID | kernel.MS_NODEV
    yield syscalls.mount("proc", "/proc", "proc", plain | kernel.MS_NOEXEC)
    for name in ("keys", "key-users", "cmdline"):
        yield syscall("mount", "/dev/null", f"/proc/{name}", None, kernel.MS_BIND, None, ignored_errno=errno.ENOENT)
    yield syscalls.set_mount("/proc", kernel.MOUNT_ATTR_RDONLY)
    terminals = f"newinstance,ptmxmode=0666,mode=0620,max={_TERMINALS}"
    yield syscalls.mount("devpts", "/dev/pts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC, terminals)


def limits_of(open_files: int, processes: int, file_bytes: int, address_space: int) -> Iterator[tuple[int, int]]:
    """Yield the kernel's limits of a process, each with its value, within those that hold already."""
    limits = {
        resource.RLIMIT_NOFILE: max(open_files, 32),  # the guest process needs some descriptors itself
        resource.RLIMIT_NPROC: processes + 1,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_CORE: 1,  # with 0 the kernel would still start the host's crash handler
        resource.RLIMIT_MEMLOCK: 65_536,
        resource.RLIMIT_SIGPENDING: _PENDING_SIGNALS,
    }
    if address_space:  # what can be written of it: Chromium and Rust's compiler reserve far more than they use
        limits[resource.RLIMIT_DATA] = address_space + own_address_space()
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        yield kind, most if hard == resource.RLIM_INFINITY else min(most, hard)


def _limit(*limits: int) -> Iterator[Syscall]:
    for kind, most in limits_of(*limits):
        yield syscalls.set_rlimit(kind, most)


def own_address_space() -> int:
    """Return the bytes of address space that this process has; its forks inherit them."""
    return _own_pages()[0] * resource.getpagesize()


def own_memory() -> int:
    """Return the bytes of this process's address space that are in memory."""
    return _own_pages()[1] * resource.getpagesize()


def _own_pages() -> list[int]:
    return [int(number) for number in kernel.read_from("/proc/self/statm").split()]
