"""The writable areas of a sandbox: /work, /tmp and /dev/shm, on one bounded file system in memory.

With layers below, /work and /tmp are those of an overlay: what is written goes to the sandbox's own file system,
what is not comes from the layers. The spawner's folder of layers lies at /tmp, where the sandbox's own file
system covers it: what was below at the start can be reached only by who mounted it.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from . import kernel
from .root import AGENT_ID

STORE = "/tmp"  # in the spawner's own tree
_AREAS = (("work", 0o755, "/work"), ("tmp", 0o1777, "/tmp"))
_SHARED_MEMORY = "/dev/shm"
_OWN_INODES = 4  # directories that are ours, not the agent's
_OVERLAY_INODES = 4


def open_layers(keys: list[str]) -> list[int]:
    """Descriptors of layers that the spawner keeps, base first. Needs the spawner's user, and nothing over `STORE`."""
    return [os.open(f"{STORE}/{key}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for key in keys]


def mount(spec: dict[str, Any], layers: list[int]) -> int:
    """Mount fresh areas. The process is the agent already, still holds its capabilities, and is in its /proc/self/fd.

    Args:
        spec: `writable`, bytes, and `inodes`, for what the sandbox itself writes.
        layers: as `open_layers` gives them; closed here.
    Returns: a descriptor of the directory that holds the changes to the layers; -1 without layers.
    """
    plain = kernel.MS_NOSUID | kernel.MS_NODEV
    inodes = spec["inodes"] + _OWN_INODES + (_OVERLAY_INODES if layers else 0)
    kernel.mount("tmpfs", "/tmp", "tmpfs", plain, f"size={spec['writable']},nr_inodes={inodes},mode=0755")
    _make("/tmp/shm", 0o1777)
    kernel.mount("/tmp/shm", _SHARED_MEMORY, None, kernel.MS_BIND)
    changes = -1
    if layers:
        files = "/tmp/merged"
        for name in ("changes", "index", "merged"):
            _make(f"/tmp/{name}", 0o755)
        lower = ":".join(str(layer) for layer in reversed(layers))
        options = f"lowerdir={lower},upperdir=/tmp/changes,workdir=/tmp/index,userxattr,xino=on"
        kernel.mount("overlay", files, "overlay", plain, options)
        changes = os.open("/tmp/changes", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for layer in layers:
            os.close(layer)
    else:
        files = "/tmp"
        for name, mode, _ in _AREAS:
            _make(f"/tmp/{name}", mode)
    for name, _, target in _AREAS:  # /tmp last: it covers the file system's own root
        kernel.mount(f"{files}/{name}", target, None, kernel.MS_BIND)
    return changes


def mount_again(spec: dict[str, Any], namespace: int) -> int:
    """In a child of the spawner: exchange a sandbox's areas for fresh ones. What it held open stays as it was.

    Args:
        namespace: descriptor of the sandbox's mount namespace.
    Returns: as `mount` does.
    """
    own_files = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # by no /proc of the sandbox's
    kernel.enter(kernel.user_namespace_of(namespace), kernel.CLONE_NEWUSER)
    kernel.enter(namespace, kernel.CLONE_NEWNS)
    for target in ("/work", _SHARED_MEMORY, "/tmp", "/tmp"):  # /tmp itself, then what it covered
        kernel.detach(target)
    layers = open_layers(spec["layers"])
    become_agent()
    os.fchdir(own_files)
    return mount(spec, layers)


def become_agent() -> None:
    with contextlib.suppress(PermissionError):  # denied where an ordinary user mapped themselves; nothing to drop then
        os.setgroups([])
    os.setresgid(AGENT_ID, AGENT_ID, AGENT_ID)
    os.setresuid(AGENT_ID, AGENT_ID, AGENT_ID)


def _make(path: str, mode: int) -> None:
    os.mkdir(path)
    os.chmod(path, mode)
