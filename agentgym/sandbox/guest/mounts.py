"""The writable mounts of a sandbox: /work, /tmp and /dev/shm, on one bounded tmpfs.

With layers, /work and /tmp are folders of an overlay: the sandbox writes to its own tmpfs, and reads unchanged files
from the layers. With a writable root the overlay is the whole file system, and its lowest layers are an image's. The
spawner's layer store is mounted at /tmp, where the sandbox's own tmpfs covers it: nothing in the sandbox can reach it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from . import kernel, syscalls
from .root import LIBRARY, PROGRAMS
from .syscalls import Syscall, syscall

LAYER_STORE = "/tmp"  # where layers are kept in the spawner's file tree
OVERLAY = "/tmp/merged"
_TARGETS = (("work", 0o755, "/work"), ("tmp", 0o1777, "/tmp"))
_SHARED_MEMORY = "/dev/shm"
_OWN_INODES = 4  # directories of an area that the agent did not make
_OVERLAY_INODES = 4
_FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY


def mount(writable: int, inodes: int, layers: range, changes: int, *, whole_root: bool = False) -> Iterator[Syscall]:
    """Mount fresh writable directories. Call it as the agent's user with capabilities, in the directory /proc/self/fd.

    Args:
        writable, inodes: bytes and files for the sandbox's own writes.
        layers: descriptors of the layers' mounts (`LayerStore.mount_for`), the lowest first.
        changes: the descriptor that the directory with the changes to the layers gets, if there are layers.
        whole_root: leave the overlay at OVERLAY, for `enter_overlay`.
    """
    plain = kernel.MS_NOSUID | kernel.MS_NODEV
    inodes += _OWN_INODES + (_OVERLAY_INODES if layers else 0)
    yield syscalls.mount("tmpfs", "/tmp", "tmpfs", plain, f"size={writable},nr_inodes={inodes},mode=0755")
    yield from syscalls.make_folder("/tmp/shm", 0o1777)
    yield syscalls.mount("/tmp/shm", _SHARED_MEMORY, None, kernel.MS_BIND)
    if layers:
        files = OVERLAY
        for name in ("changes", "index", "merged"):
            yield from syscalls.make_folder(f"/tmp/{name}", 0o755)
        for layer in layers:  # each layer covers the one before, and the overlay covers the last
            yield syscalls.move_mount(layer, files)
            yield from syscalls.open_as(layer, files, _FOLDER_FLAGS)
        lower = ":".join(str(layer) for layer in reversed(layers))
        options = f"lowerdir={lower},upperdir=/tmp/changes,workdir=/tmp/index,userxattr,xino=on"
        yield syscalls.mount("overlay", files, "overlay", plain, options)
        yield from syscalls.open_as(changes, "/tmp/changes", _FOLDER_FLAGS)
    else:
        files = "/tmp"
        for name, mode, _ in _TARGETS:
            yield from syscalls.make_folder(f"/tmp/{name}", mode)
    if whole_root:
        for name, mode, _ in _TARGETS:
            yield from syscalls.make_folder(f"{files}/{name}", mode, may_exist=True)
        return
    for name, _, target in _TARGETS:  # /tmp last: it covers the root of the tmpfs
        yield syscalls.mount(f"{files}/{name}", target, None, kernel.MS_BIND)


def enter_overlay(*, programs: bool) -> Iterator[Syscall]:
    """Make the overlay the root, with /proc, /dev, the guest's library and the agent programs of the former tree, which
    is detached.
    """
    own = [LIBRARY, *([PROGRAMS] if programs else [])]
    for path in own:
        yield syscall("mkdir", f"{OVERLAY}{path}", 0o755, ignored_errno=errno.EEXIST)
    for path in ("/proc", "/dev", *own):
        yield syscalls.mount(path, f"{OVERLAY}{path}", None, kernel.MS_BIND | kernel.MS_REC)
    yield syscall("chdir", OVERLAY)
    yield syscall("pivot_root", ".", ".")  # the former root is now mounted over the new one
    yield syscall("umount2", ".", kernel.MNT_DETACH)
    yield syscall("chdir", "/")
