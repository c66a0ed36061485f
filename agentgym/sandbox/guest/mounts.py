"""The writable areas of a sandbox: /work, /tmp and /dev/shm, on one bounded file system in memory.

With layers below, /work and /tmp are those of an overlay: what is written goes to the sandbox's own file system,
what is not comes from the layers. The spawner's folder of layers lies at /tmp, where the sandbox's own file
system covers it: what was below at the start can be reached only by who mounted it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from . import kernel, syscalls
from .root import AGENT_ID
from .syscalls import Syscall, syscall

LAYER_STORE = "/tmp"  # in the spawner's own tree
_AREAS = (("work", 0o755, "/work"), ("tmp", 0o1777, "/tmp"))
_SHARED_MEMORY = "/dev/shm"
_OWN_INODES = 4  # directories that are ours, not the agent's
_OVERLAY_INODES = 4
_A_FOLDER = os.O_PATH | os.O_DIRECTORY


def open_layers(keys: list[str], lowest: int) -> Iterator[Syscall]:
    """Open layers that the spawner keeps, base first, as descriptors from `lowest` on.

    Needs the spawner's user, and nothing over `LAYER_STORE`.
    """
    for place, key in enumerate(keys, lowest):
        yield from syscalls.open_as(place, f"{LAYER_STORE}/{key}", _A_FOLDER)


def mount(spec: dict[str, Any], layers: int, changes: int) -> Iterator[Syscall]:
    """Mount fresh areas. The process is the agent already, still holds its capabilities, and is in its /proc/self/fd.

    Args:
        spec: `writable`, bytes, and `inodes`, for what the sandbox itself writes; `layers`, keys.
        layers: from which descriptor on `open_layers` left them.
        changes: descriptor that the directory with the changes to the layers becomes, if there are layers.
    """
    plain = kernel.MS_NOSUID | kernel.MS_NODEV
    count = len(spec["layers"])
    inodes = spec["inodes"] + _OWN_INODES + (_OVERLAY_INODES if count else 0)
    yield syscalls.mount("tmpfs", "/tmp", "tmpfs", plain, f"size={spec['writable']},nr_inodes={inodes},mode=0755")
    yield from syscalls.make_folder("/tmp/shm", 0o1777)
    yield syscalls.mount("/tmp/shm", _SHARED_MEMORY, None, kernel.MS_BIND)
    if count:
        files = "/tmp/merged"
        for name in ("changes", "index", "merged"):
            yield from syscalls.make_folder(f"/tmp/{name}", 0o755)
        lower = ":".join(str(layer) for layer in reversed(range(layers, layers + count)))
        options = f"lowerdir={lower},upperdir=/tmp/changes,workdir=/tmp/index,userxattr,xino=on"
        yield syscalls.mount("overlay", files, "overlay", plain, options)
        yield from syscalls.open_as(changes, "/tmp/changes", _A_FOLDER)
    else:
        files = "/tmp"
        for name, mode, _ in _AREAS:
            yield from syscalls.make_folder(f"/tmp/{name}", mode)
    for name, _, target in _AREAS:  # /tmp last: it covers the file system's own root
        yield syscalls.mount(f"{files}/{name}", target, None, kernel.MS_BIND)


def remount(
    spec: dict[str, Any], *, user_namespace: int, namespace: int, own_files: int, layers: int, changes: int
) -> Iterator[Syscall]:
    """From outside: exchange a sandbox's areas for fresh ones. What it held open stays as it was.

    Args:
        user_namespace, namespace: descriptors of the sandbox's user namespace and of that of its mounts.
        own_files: descriptor to use for this process's own. `layers`, `changes`: as `mount` has them.
    """
    yield from syscalls.open_as(own_files, "/proc/self/fd", _A_FOLDER)  # by no /proc of the sandbox's
    yield syscall("setns", user_namespace, kernel.CLONE_NEWUSER)
    yield syscall("setns", namespace, kernel.CLONE_NEWNS)
    for target in ("/work", _SHARED_MEMORY, "/tmp", "/tmp"):  # /tmp itself, then what it covered
        yield syscall("umount2", target, kernel.MNT_DETACH)
    yield from open_layers(spec["layers"], layers)
    yield from syscalls.become_user(AGENT_ID)
    yield syscall("fchdir", own_files)
    yield from mount(spec, layers, changes)
