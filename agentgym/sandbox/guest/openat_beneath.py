"""Opens a path that must not leave a directory, component by component: for kernels without openat2 (gVisor).

The rules are those of openat2 with RESOLVE_BENEATH: a link is followed if it is relative and stays inside.
"""

from __future__ import annotations

import errno
import os

_MAX_LINKS = 40  # as in Linux


def open_beneath_stepwise(directory: int, path: str, flags: int, mode: int, *, same_device: bool) -> int:
    """Open `path` below `directory`. Returns: a descriptor. Raises: OSError.

    Args:
        same_device: refuse other file systems, as RESOLVE_NO_XDEV does.
    """
    pending = [name for name in reversed(path.split("/")) if name not in ("", ".")]
    trail = [os.dup(directory)]  # the directories on the way, so that `..` returns to the last one
    links = 0
    try:
        while pending:
            name = pending.pop()
            if name == "..":
                if len(trail) == 1:
                    raise _outside(path)
                os.close(trail.pop())
                continue
            open_flags = (os.O_PATH | os.O_DIRECTORY if pending else flags) | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                opened = os.open(name, open_flags, mode, dir_fd=trail[-1])
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                    raise
                target = _link(name, trail[-1])
                if target is None:
                    raise
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from error
                if target.startswith("/"):
                    raise _outside(path) from error
                pending += [part for part in reversed(target.split("/")) if part not in ("", ".")]
                continue
            trail.append(opened)
            if same_device and os.fstat(opened).st_dev != os.fstat(directory).st_dev:
                raise _outside(path)
            if not pending:
                return trail.pop()
        return os.open(".", flags | os.O_CLOEXEC, dir_fd=trail[-1])
    finally:
        for descriptor in trail:
            os.close(descriptor)


def _link(name: str, directory: int) -> str | None:
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError:
        return None


def _outside(path: str) -> OSError:
    return OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
