"""The archive format of snapshots: the writable files of a sandbox, or their changes to the layers below.

A record is a JSON header line and, for a file, its bytes: {"p": path, "t": kind, "m": mode, "u": mtime_ns, "n": size or
"l": target}. Kinds: "d", a directory ("o": 1 if it hides the one below instead of adding to it); "f", a file; "l", a
link; "h", a hard link: a second name of the file at the path "l"; "w", a whiteout: whatever lower layers have under
this name is gone. A directory comes before its content, names are sorted, paths are unique. Sockets, pipes, owners and
extended attributes are not kept.

A file with holes has "s": 1, and for each MiB a bit for each block of 4 KiB, set if the block holds anything but zeros,
and then these blocks. So a stream is never much larger than the space that its files take.

Hand-written instead of tarfile: overlay whiteouts and opaque directories, a canonical order, and strict checks of a
stream that may come from a hostile sandbox.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

from . import kernel, surroundings

ROOTS = {b"tmp": 0o1777, b"work": 0o755}  # the folders of every archive, with their initial modes
NOT_KEPT = (b"proc", b"dev", b"sys", b".agentgym")  # folders at the top that no archive has
MAX_LINE = 65_536
KINDS = ("d", "f", "l", "h", "w")
FIELDS = frozenset("tpmuonls")
MAX_PATH = 4095  # no system call accepts a longer path
OPAQUE = "user.overlay.opaque"  # how an overlay file system marks a directory that hides the one below
_HEX = "hex:"  # prefix of a name that is not UTF-8
_MAX_TIME_NS = 2**63 * 10**9  # any time that the kernel accepts, since agents set times
BLOCK, GROUP = 4096, 1 << 20  # bytes of a block, and of the part of a file that one bitmap covers
MAX_SIZE = 2**53
_SAFE_FOLDER = kernel.RESOLVE_BENEATH | kernel.RESOLVE_NO_SYMLINKS

Record = dict[str, Any]
header_line = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


# Creating files in a sandbox


def unpack(source: BinaryIO, *, as_layer: bool, folder: str = ".") -> int:
    """Create the files of a stream in a folder. No agent code runs here yet.

    Args:
        as_layer: make a layer for an overlay: whiteouts and opaque directories are written as such. Otherwise they are
            applied to the files already there.
    Returns: bytes used, in whole pages.
    Raises: ValueError for an invalid stream; OSError for files that do not fit. Files created before the error stay.
    """
    root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    parent, inside = -1, None
    directories: list[tuple[bytes, int, int]] = []
    taken = 0
    try:
        for parts, record, content in records(source):
            taken += BLOCK  # counts the name and the inode
            if parts[:-1] != inside:
                if parent >= 0:
                    os.close(parent)
                    parent = -1
                inside = parts[:-1]
                flags = os.O_PATH | os.O_DIRECTORY
                parent = kernel.open_beneath(root, b"/".join(inside) or b".", flags, resolve=_SAFE_FOLDER)
            if record["t"] == "d":
                _make_directory(parent, parts[-1], record.get("o") == 1, as_layer)
                directories.append((b"/".join(parts), record["m"], record["u"]))
            elif record["t"] == "h":
                _make_hard_link(root, parent, parts[-1], decode(record["l"]), as_layer)
            else:
                taken += _make_other(parent, parts[-1], record, content, as_layer)
        for path, mode, time_ns in reversed(
            directories
        ):  # set after the content, because nothing can be created in a read-only directory
            os.chmod(path, mode, dir_fd=root)
            os.utime(path, ns=(time_ns, time_ns), dir_fd=root)
        return taken
    finally:
        os.close(root)
        if parent >= 0:
            os.close(parent)


def _make_directory(folder: int, name: bytes, opaque: bool, as_layer: bool) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            os.unlink(name, dir_fd=folder)
            os.mkdir(name, 0o700, dir_fd=folder)
        elif opaque and not as_layer:
            clear(folder, name)
        os.chmod(name, 0o700, dir_fd=folder)
    if opaque and as_layer:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            os.setxattr(descriptor, OPAQUE, b"y")
        finally:
            os.close(descriptor)


def _target(text: str, as_layer: bool) -> bytes:
    target = decode(text)
    return target if as_layer or not surroundings.folder else os.fsencode(surroundings.real(os.fsdecode(target)))


def _make_hard_link(root: int, folder: int, name: bytes, target: bytes, as_layer: bool) -> None:
    if not as_layer:
        clear(folder, name, itself=True)
    parent, _, last = target.rpartition(b"/")
    source = kernel.open_beneath(root, parent, os.O_PATH | os.O_DIRECTORY, resolve=_SAFE_FOLDER)
    try:
        os.link(last, name, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
    finally:
        os.close(source)


def _make_other(folder: int, name: bytes, record: Record, content: Iterator[bytes | int], as_layer: bool) -> int:
    """Make a file or link. Returns: bytes of the content, in whole pages."""
    taken = 0
    if not as_layer:
        clear(folder, name, itself=True)
    if record["t"] == "l":
        os.symlink(_target(record["l"], as_layer), name, dir_fd=folder)
        os.utime(name, ns=(record["u"], record["u"]), dir_fd=folder, follow_symlinks=False)
    elif record["t"] == "f":
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(name, flags, 0o600, dir_fd=folder)
        try:
            for piece in content:
                if isinstance(piece, int):
                    os.lseek(descriptor, piece, os.SEEK_CUR)
                    continue
                taken += -(-len(piece) // BLOCK) * BLOCK
                view = memoryview(piece)
                while view:
                    view = view[os.write(descriptor, view) :]
            os.ftruncate(descriptor, record["n"])
            os.fchmod(descriptor, record["m"])
            os.utime(descriptor, ns=(record["u"], record["u"]))
        finally:
            os.close(descriptor)
    elif as_layer:
        os.mknod(name, stat.S_IFCHR, 0, dir_fd=folder)
    return taken


def clear(folder: int, name: bytes, *, itself: bool = False) -> None:
    """Remove the content of a directory. With `itself`, remove the directory too, or any other file with the name.

    Nothing else may write into the directory meanwhile.
    """
    try:
        status = os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        os.unlink(name, dir_fd=folder)
        return
    directories, pending = [], [name]
    while pending:
        path = pending.pop()
        directories.append(path)
        os.chmod(path, 0o700, dir_fd=folder)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    below = os.fsencode(entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(path + b"/" + below)
                    else:
                        os.unlink(below, dir_fd=descriptor)
        finally:
            os.close(descriptor)
    for path in reversed(directories[0 if itself else 1 :]):
        os.rmdir(path, dir_fd=folder)


# The format


def records(source: BinaryIO) -> Iterator[tuple[tuple[bytes, ...], Record, Iterator[bytes | int]]]:
    """Yield a stream's records. Each has the path's parts, the header, and the content (bytes, or the length of a
    hole).

    Raises: ValueError for an invalid stream. Every field in the result has the right type and range.
    """
    before: tuple[bytes, ...] = ()
    newest: tuple[bytes, ...] = ()  # the latest directory: the next path is in it or in one of its parents
    files: set[bytes] = set()
    while line := source.readline(MAX_LINE):
        record = _checked(line)
        parts = _parts(record)
        if parts <= before:
            raise ValueError(f"the entry {record['p']!r:.200} is out of order, or appears twice")
        if newest[: len(parts) - 1] != parts[:-1]:
            raise ValueError(f"the entry {record['p']!r:.200} comes without an entry of its directory before it")
        if record["t"] == "d":
            newest = parts
        elif record["t"] == "f":
            files.add(b"/".join(parts))
        elif record["t"] == "h" and decode(record["l"]) not in files:
            raise ValueError(
                f"the hard link {record['p']!r:.200} points to {record['l']!r:.200}, which is not a file that came "
                "before it"
            )
        before = parts
        content = _content(source, record)
        yield parts, record, content
        for _ in content:
            pass  # skip content that the caller did not read


def _checked(line: bytes) -> Record:
    try:
        record = json.loads(line)
    except RecursionError as error:
        raise ValueError("a header is nested too deeply") from error
    if not isinstance(record, dict) or record.get("t") not in KINDS or not isinstance(record.get("p"), str):
        raise ValueError(f"a header is invalid: {line[:80]!r}")
    kind = record["t"]
    if not FIELDS.issuperset(record) or record.get("o", 1) != 1 or record.get("s", 1) != 1:
        raise ValueError(f"a header has fields other than {' '.join(sorted(FIELDS))}")
    if kind == "w" and len(record) != 2:
        raise ValueError(f"a whiteout has fields other than its path: {line[:80]!r}")
    if kind != "w" and not (
        _is_int_within(record.get("m"), 0o7777) and _is_int_within(record.get("u"), _MAX_TIME_NS, -_MAX_TIME_NS)
    ):
        raise ValueError(
            f"a header has an invalid mode or time: mode {record.get('m')!r:.40}, time {record.get('u')!r:.40}"
        )
    if ("n" in record) != (kind == "f") or not _is_int_within(record.get("n", 0), MAX_SIZE):
        raise ValueError(f"a record of kind {kind!r} has an invalid size: {record.get('n')!r:.40}")
    if ("l" in record) != (kind in "lh") or not isinstance(record.get("l", ""), str):
        raise ValueError(f"a record of kind {kind!r} has an invalid link target: {record.get('l')!r:.40}")
    return record


def _is_int_within(value: object, most: int, least: int = 0) -> bool:
    return type(value) is int and least <= value <= most


def _parts(record: Record) -> tuple[bytes, ...]:
    path = decode(record["p"])
    parts = tuple(path.split(b"/"))
    odd = any(part in (b"", b".", b"..") for part in parts)
    if parts[0] in NOT_KEPT or odd or b"\0" in path or len(path) > MAX_PATH:
        raise ValueError(f"a path is invalid, or outside the folders that a sandbox may write: {record['p']!r:.200}")
    if path in ROOTS and (record["t"] != "d" or record.get("o")):
        raise ValueError(f"{record['p']!r} is a top folder, but its record is not that of a directory")
    return parts


def _content(source: BinaryIO, record: Record) -> Iterator[bytes | int]:
    size = record.get("n", 0)
    if "s" not in record:
        yield from _exactly(source, size)
        return
    for start in range(0, size, GROUP):
        length = min(GROUP, size - start)
        held = int.from_bytes(b"".join(_exactly(source, bitmap_bytes(length))), "little")
        if held == 0:
            yield length
            continue
        if held >> -(-length // BLOCK):
            raise ValueError(f"{record['p']!r:.200} has more data blocks than its size allows")
        for number, at in enumerate(range(0, length, BLOCK)):
            block = min(BLOCK, length - at)
            if held >> number & 1:
                yield b"".join(_exactly(source, block))
            else:
                yield block


def bitmap_bytes(length: int) -> int:
    """Return the size in bytes of the bitmap for a piece of `length` bytes."""
    return -(-length // (8 * BLOCK))


def _exactly(source: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        piece = source.read(min(size, GROUP))
        if not piece:
            raise ValueError(f"the stream ends {size} bytes too early")
        size -= len(piece)
        yield piece


def encode(path: bytes) -> str:
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        text = _HEX
    return _HEX + path.hex() if text.startswith(_HEX) else text


def decode(text: str) -> bytes:
    return bytes.fromhex(text[len(_HEX) :]) if text.startswith(_HEX) else text.encode("utf-8")
