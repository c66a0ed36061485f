"""Writes the files of a sandbox as an archive, in any state that an agent left: holes, hard links, modes, depths."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from . import surroundings
from .archive import (
    BLOCK,
    GROUP,
    MAX_LINE,
    MAX_PATH,
    MAX_SIZE,
    NOT_KEPT,
    OPAQUE,
    ROOTS,
    Record,
    bitmap_bytes,
    encode,
    header_line,
)

_ZEROS = bytes(BLOCK)


def pack(out: BinaryIO, *, changes: bool) -> None:
    """Write to `out` the trees of `ROOTS`, or all changes, found in the current directory. Nothing else may change them
    meanwhile.

    The walk goes from directory to directory without paths, so that each file costs the same at any depth.

    Args:
        changes: the directory is the upper one of an overlay; whiteouts and opaque directories are written too.
    Raises: OSError for files that cannot be captured.
    """
    top = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        roots = sorted(set(map(os.fsencode, os.listdir(top))) - set(NOT_KEPT)) if changes else sorted(ROOTS)
        _Packer(out, changes).pack(top, roots)
    finally:
        os.close(top)


class _Packer:
    """Writes records. `links`: the first path of each file with several names, by device and inode."""

    def __init__(self, out: BinaryIO, changes: bool) -> None:
        self.out, self.changes = out, changes
        self.links: dict[tuple[int, int], bytes] = {}

    def pack(self, top: int, roots: Sequence[bytes]) -> None:
        """Write the directories `roots` of the open directory `top`, and all below them."""
        folder, path = os.dup(top), b""
        waiting: list[list[bytes]] = [list(reversed(roots))]  # for each directory on the way: the names still to write
        modes: list[int] = []  # for each of them: its mode, if it had to be changed, else -1
        try:
            while waiting:
                if not waiting[-1]:
                    waiting.pop()
                    if waiting:
                        folder = _leave(folder, modes.pop())
                        path = path.rpartition(b"/")[0]
                    continue
                name = waiting[-1].pop()
                here = path + b"/" + name if path else name
                if len(here) > MAX_PATH:
                    raise OSError(errno.ENAMETOOLONG, f"a path has more than {MAX_PATH} bytes")
                status = os.lstat(name, dir_fd=folder)
                if stat.S_ISDIR(status.st_mode):
                    folder, mode = _enter(folder, name, status)
                    modes.append(mode)
                    waiting.append(sorted(map(os.fsencode, os.listdir(folder)), reverse=True))
                    path = here
                    opaque = {"o": 1} if self.changes and _is_opaque(folder) else {}
                    self._put(here, status, {**opaque, "t": "d"})
                else:
                    self._put_other(folder, name, here, status)
        finally:
            while modes:
                folder = _leave(folder, modes.pop())
            os.close(folder)

    def _put_other(self, folder: int, name: bytes, path: bytes, status: os.stat_result) -> None:
        if stat.S_ISREG(status.st_mode):
            first = self.links.setdefault((status.st_dev, status.st_ino), path) if status.st_nlink > 1 else path
            if first != path:
                self._put(path, status, {"t": "h", "l": encode(first)})
            else:
                self._put_file(folder, name, path, status)
        elif stat.S_ISLNK(status.st_mode):
            self._put(path, status, {"t": "l", "l": encode(_target(name, folder))})
        elif self.changes:  # a whiteout, or a pipe or socket, which hides the lower file in the same way
            _put(self.out, {"p": encode(path), "t": "w"})

    def _put_file(self, folder: int, name: bytes, path: bytes, status: os.stat_result) -> None:
        readable = status.st_mode & 0o400
        if not readable:
            os.chmod(name, 0o600, dir_fd=folder)
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            sparse = status.st_blocks * 512 < status.st_size
            self._put(path, status, {"t": "f", "n": status.st_size, **({"s": 1} if sparse else {})})
            for piece in (_sparse_content if sparse else _plain_content)(descriptor, status.st_size):
                self.out.write(piece)
        finally:
            if not readable:
                os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
            os.close(descriptor)

    def _put(self, path: bytes, status: os.stat_result, fields: Record) -> None:
        _put(self.out, {"p": encode(path), "m": stat.S_IMODE(status.st_mode), "u": status.st_mtime_ns, **fields})


def _target(name: bytes, folder: int) -> bytes:
    target = os.readlink(name, dir_fd=folder)
    return os.fsencode(surroundings.seen(os.fsdecode(target))) if surroundings.folder else target


def _enter(folder: int, name: bytes, status: os.stat_result) -> tuple[int, int]:
    """Enter a directory, changing a mode that forbids it. Returns: the directory; the mode before a change, else -1."""
    mode = stat.S_IMODE(status.st_mode)
    closed = mode & 0o500 != 0o500
    if closed:
        os.chmod(name, mode | 0o700, dir_fd=folder)
    below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    os.close(folder)
    return below, mode if closed else -1


def _leave(folder: int, mode: int) -> int:
    """Leave a directory after restoring a changed mode. Returns: the directory above."""
    above = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    if mode >= 0:
        os.fchmod(folder, mode)
    os.close(folder)
    return above


def _plain_content(descriptor: int, size: int) -> Iterator[bytes]:
    while size:
        piece = os.read(descriptor, min(size, GROUP)) or bytes(min(size, GROUP))  # the file shrank
        yield piece
        size -= len(piece)


def _sparse_content(descriptor: int, size: int) -> Iterator[bytes]:
    """Yield for each MiB of a file a bit map of the blocks that are not all zeros, and then those blocks."""
    for start in range(0, size, GROUP):
        length = min(GROUP, size - start)
        if _next_data(descriptor, start) >= start + length:
            yield bytes(bitmap_bytes(length))
            continue
        group = os.pread(descriptor, length, start).ljust(length, b"\0")
        blocks = [group[at : at + BLOCK] for at in range(0, length, BLOCK)]
        held = [number for number, block in enumerate(blocks) if block != _ZEROS[: len(block)]]
        yield sum(1 << number for number in held).to_bytes(bitmap_bytes(length), "little")
        yield b"".join([blocks[number] for number in held])


def _next_data(descriptor: int, start: int) -> int:
    """Return the position of the next byte from `start` on that is not in a hole."""
    try:
        return os.lseek(descriptor, start, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            return start
        return MAX_SIZE


def _is_opaque(folder: int) -> bool:
    try:
        return os.getxattr(folder, OPAQUE) == b"y"
    except OSError:
        return False


def _put(out: BinaryIO, record: Record) -> None:
    line = header_line(record).encode() + b"\n"
    if len(line) > MAX_LINE:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    out.write(line)
