"""The writable files of a sandbox as one stream of bytes, and back.

A record is a JSON header line and, for a file, its bytes: {"p": path, "t": "d"|"f"|"l", "m": mode, "u": mtime_ns,
"n": size or "l": target}. Directories come before what is in them and names are sorted, so equal trees make
equal streams but for the times. Sockets, pipes and hard links as such are not kept.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TypeVar

ROOTS = ("work", "tmp")
MAX_LINE = 65_536
_HEX = "hex:"  # before the bytes of a name that is no text
_NEEDED = {True: 0o500, False: 0o400}  # permissions of the owner to read a directory, a file

T = TypeVar("T")


def pack(out: BinaryIO) -> None:
    """Write every root's tree."""
    for root in ROOTS:
        _pack(os.fsencode(root), out)


def _pack(path: bytes, out: BinaryIO) -> None:
    where = b"/" + path
    status = os.lstat(where)
    record: dict[str, Any] = {"p": _encode(path), "m": stat.S_IMODE(status.st_mode), "u": status.st_mtime_ns}
    if stat.S_ISLNK(status.st_mode):
        _put(out, {**record, "t": "l", "l": _encode(os.readlink(where))})
    elif stat.S_ISDIR(status.st_mode):
        _put(out, {**record, "t": "d"})
        for name in sorted(_readable(where, status, os.listdir)):
            _pack(path + b"/" + name, out)
        os.chmod(where, stat.S_IMODE(status.st_mode))
    elif stat.S_ISREG(status.st_mode):
        descriptor = _readable(where, status, lambda name: os.open(name, os.O_RDONLY | os.O_NOFOLLOW))
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
        with open(descriptor, "rb") as file:
            _put(out, {**record, "t": "f", "n": status.st_size})
            left = status.st_size
            while left:
                piece = file.read(min(left, 1 << 20)) or bytes(min(left, 1 << 20))  # zeros if it shrank meanwhile
                out.write(piece)
                left -= len(piece)


def _readable(where: bytes, status: os.stat_result, use: Callable[[bytes], T]) -> T:
    """Use a file of ours; one that forbids even us to read it is opened up first, and the caller shuts it again."""
    needed = _NEEDED[stat.S_ISDIR(status.st_mode)]
    if status.st_mode & needed != needed:
        os.chmod(where, stat.S_IMODE(status.st_mode) | 0o700)
    return use(where)


def unpack(source: BinaryIO) -> None:
    """Make the files of a stream. The sandbox is fresh, and nothing of the agent's runs in it yet."""
    late: list[tuple[bytes, int, int]] = []
    for record, content in records(source):
        path = b"/" + _decode(record["p"])
        if record["t"] == "l":
            os.symlink(_decode(record["l"]), path)
            os.utime(path, ns=(record["u"], record["u"]), follow_symlinks=False)
            continue
        if record["t"] == "d":
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
        else:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "wb") as file:
                for piece in content:
                    file.write(piece)
        late.append((path, record["m"], record["u"]))
    for path, mode, time_ns in reversed(late):  # contents first: a read-only directory takes no more files
        os.chmod(path, mode)
        os.utime(path, ns=(time_ns, time_ns))


def records(source: BinaryIO) -> Iterator[tuple[dict[str, Any], Iterator[bytes]]]:
    """Records of a stream, each with its content. Raises: ValueError for anything that is no such stream."""
    while line := source.readline(MAX_LINE):
        record = json.loads(line)
        size = record.get("n", 0)
        if record["t"] not in ("d", "f", "l") or not isinstance(size, int) or size < 0:
            raise ValueError(f"a record of kind {record['t']!r} and size {size!r}")
        content = _content(source, size)
        yield record, content
        for _ in content:
            pass  # whatever the reader left


def _content(source: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        piece = source.read(min(size, 1 << 20))
        if not piece:
            raise ValueError(f"the stream ends {size} bytes too early")
        size -= len(piece)
        yield piece


def _put(out: BinaryIO, record: dict[str, Any]) -> None:
    line = json.dumps(record, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    if len(line) > MAX_LINE:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    out.write(line)


def _encode(path: bytes) -> str:
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        text = _HEX
    return _HEX + path.hex() if text.startswith(_HEX) else text


def _decode(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix(_HEX)) if text.startswith(_HEX) else text.encode("utf-8")
