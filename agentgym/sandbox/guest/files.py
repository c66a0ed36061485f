"""Reads, writes and lists files on behalf of the host, whatever links the agent has created.

The guest has no more rights than the agent, so nothing here can reach out of the sandbox. The checks protect the host's
trust in a path: inside /work and /tmp a link is followed only if it stays there (with a writable root, in which these
are folders like others, it may lead anywhere), /proc is never read or written, and only regular files are opened,
without blocking.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from . import kernel, surroundings

areas: tuple[str, ...] = ("work", "tmp")


@contextmanager
def _opened(path: str, flags: int, mode: int = 0) -> Iterator[int]:
    area, rest = _split_area(path)
    directory = os.open(surroundings.real(area), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    descriptor = -1
    try:
        resolve = kernel.RESOLVE_BENEATH | (kernel.RESOLVE_NO_XDEV if area != "/" else 0)
        if not areas:
            resolve = kernel.RESOLVE_IN_ROOT
        if not flags & os.O_PATH:  # openat2 rejects flags that have no effect
            flags |= os.O_NONBLOCK | os.O_NOCTTY
        descriptor = kernel.open_beneath(directory, rest, flags, mode, resolve=resolve)
        if area == "/" and os.fstat(descriptor).st_dev == os.stat("/proc").st_dev:
            raise PermissionError(errno.EACCES, "/proc is the guest's own here, not the agent's", path)
        yield descriptor
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ELOOP):
            raise PermissionError(errno.EACCES, "a link leads out of the writable area", path) from error
        if error.errno == errno.ENXIO:
            raise PermissionError(errno.EACCES, "not a regular file", path) from error
        error.filename = path
        raise
    finally:
        os.close(directory)
        if descriptor >= 0:
            os.close(descriptor)


def _split_area(path: str) -> tuple[str, str]:
    """Split a path into the directory below which it is resolved, and the rest. Relative paths start in /work."""
    if "\0" in path:
        raise FileNotFoundError(errno.ENOENT, "a path cannot hold a null character", path.replace("\0", "?"))
    if not path.startswith("/"):
        if not areas:
            return "/", f"work/{path}"
        return "/work", path or "."
    rest = path.strip("/")
    first, _, below = rest.partition("/")
    if first in areas or surroundings.is_moved(f"/{first}"):
        return f"/{first}", below or "."
    return "/", rest or "."


def read(path: str, offset: int, most: int) -> tuple[bytes, int]:
    """Return a piece of a regular file, and the file's size."""
    with _opened(path, os.O_RDONLY) as descriptor:
        status = _regular(descriptor, path)
        pieces, left = [], min(most, max(status.st_size - offset, 0))
        while left > 0:
            piece = os.pread(descriptor, left, offset)
            if not piece:
                break
            pieces.append(piece)
            offset, left = offset + len(piece), left - len(piece)
        return b"".join(pieces), status.st_size


def write(path: str, data: bytes, mode: int, source: int | None) -> None:
    """Replace a file's content by `data`, or by what the descriptor `source` holds. Create missing directories."""
    flags = os.O_WRONLY | os.O_CREAT
    try:
        _write(path, flags, data, mode, source)
    except FileNotFoundError:
        _make_parents(path)
        _write(path, flags, data, mode, source)


def _write(path: str, flags: int, data: bytes, mode: int, source: int | None) -> None:
    with _opened(path, flags, 0o600) as descriptor:
        _regular(descriptor, path)
        os.ftruncate(descriptor, 0)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if source is not None:
            os.lseek(source, 0, os.SEEK_SET)
            while piece := os.read(source, 1 << 20):
                view = memoryview(piece)
                while view:
                    view = view[os.write(descriptor, view) :]
        os.fchmod(descriptor, mode & 0o777)


def _make_parents(path: str) -> None:
    area, rest = _split_area(path)
    names = [name for name in rest.split("/")[:-1] if name not in ("", ".")]
    if ".." in names:
        raise PermissionError(errno.EACCES, "the path contains '..', and its directories do not exist", path)
    for count in range(1, len(names) + 1):
        below = "/".join(names[:count])
        parent = "/".join(names[: count - 1]) or "."
        with _opened(f"{area}/{parent}", os.O_PATH | os.O_DIRECTORY) as directory:
            try:
                os.mkdir(names[count - 1], 0o755, dir_fd=directory)
            except FileExistsError:
                pass
            except OSError as error:
                error.filename = f"{area}/{below}"
                raise


def names(path: str, most: int) -> list[bytes]:
    """Return a directory's names, sorted; directories end with a slash. Raises: OSError for more than `most`."""
    with _opened(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor, os.scandir(descriptor) as entries:
        listed = [
            os.fsencode(entry.name) + (b"/" if entry.is_dir(follow_symlinks=False) else b"")
            for entry in islice(entries, most + 1)
        ]
    if len(listed) > most:
        raise OSError(errno.EFBIG, f"the directory has more than {most} names")
    return sorted(listed)


def _regular(descriptor: int, path: str) -> os.stat_result:
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise PermissionError(errno.EACCES, "not a regular file", path)
    return status
