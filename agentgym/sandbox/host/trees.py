"""Computes what an archive contains without unpacking it: digests, the tree of several layers, merged layers."""

from __future__ import annotations

import hashlib
import io
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.errors import FilesNotCaptured
from agentgym.sandbox.guest.archive import decode, header_line, records

_ZEROS = bytes(2**20)


@dataclass(frozen=True, slots=True)
class Change:
    """One record of an archive.

    `digest`: hash of kind, mode, link target and content. `content`: where the content is in the archive.
    """

    path: bytes
    header: Mapping[str, Any]
    digest: bytes
    content: slice

    @property
    def hides(self) -> bool:
        """Return whether this record removes lower layers' files below its path. A plain directory only adds files."""
        return self.header["t"] != "d" or bool(self.header.get("o"))


def changes_of(archive: bytes, *, most: int | None = None, most_bytes: int | None = None) -> list[Change]:
    """Return the records of an archive. A second hard link to a file is a separate change.

    The archive may come from a hostile sandbox.
    Raises: ValueError if it is invalid; FilesNotCaptured for more than `most` records or `most_bytes` bytes of files,
        holes included.
    """
    source, view = io.BytesIO(archive), memoryview(archive)
    changes: list[Change] = []
    files: dict[bytes, Change] = {}
    size = 0
    for parts, header, pieces in records(source):
        path, kind, start = b"/".join(parts), header["t"], source.tell()
        size += header.get("n", 0)
        if len(changes) == most:
            raise FilesNotCaptured(f"The sandbox has more than {most} files, which is more than the spec allows.")
        if most_bytes is not None and size > most_bytes:
            raise FilesNotCaptured(
                f"The files of the sandbox have more than {most_bytes} bytes, counting holes, which is more than the "
                "spec allows."
            )
        if kind == "h":
            first = files[decode(header["l"])]
            changes.append(Change(path, {**first.header, "p": header["p"]}, first.digest, first.content))
            continue
        target = decode(header["l"]) if kind == "l" else b""
        mode = 0 if kind == "l" else header.get("m", 0)  # links have no mode
        fields = b"%s %o %d\n%s" % (kind.encode(), mode, len(target), target)
        digest = hashlib.sha256(fields)
        if "s" in header:
            for piece in pieces:
                digest.update(piece if isinstance(piece, bytes) else _ZEROS[:piece])
            content = slice(start, source.tell())
        else:
            content = slice(start, start + header.get("n", 0))
            if content.stop > len(archive):
                raise ValueError(f"the stream ends {content.stop - len(archive)} bytes too early")
            digest.update(view[content])
        changes.append(Change(path, header, digest.digest(), content))
        if kind == "f":
            files[path] = changes[-1]
    return changes


def digest_of(changes: Iterable[Change]) -> str:
    """Return the SHA-256 of an archive's records, including times."""
    total = hashlib.sha256()
    for change in changes:
        total.update(header_line(change.header).encode() + b"\n" + change.digest)
    return total.hexdigest()


def tree_of(below: Mapping[bytes, bytes], changes: Sequence[Change], *, over_image: bool = False) -> dict[bytes, bytes]:
    """Return the digests of the tree `below` after `changes`, sorted by path. Unchanged paths cost next to nothing.

    `over_image`: an image is below everything. So a removed file is an entry of its own, and a directory that hides the
    image's has a second entry, whose name ends with a slash. Below such a directory neither is needed.
    """
    hidden: set[bytes] = set()
    paths = sorted(below)
    for path in _hiding(changes):
        hidden.update(paths[slice(*_range_below(paths, path))])
    after = {path: digest for path, digest in below.items() if path not in hidden} if hidden else dict(below)
    for change in changes:
        is_needed = over_image and not _is_hidden(change.path, after)
        if change.header["t"] == "w" and not is_needed:
            after.pop(change.path, None)
            continue
        after[change.path] = change.digest
        if change.header.get("o") and is_needed:
            after[change.path + b"/"] = change.digest
    return dict(sorted(after.items()))


def _is_hidden(path: bytes, tree: Mapping[bytes, bytes]) -> bool:
    """Return whether a directory above a path hides the image's."""
    parts = path.split(b"/")
    return any(b"/".join(parts[:count]) + b"/" in tree for count in range(1, len(parts)))


def id_of(tree: Mapping[bytes, bytes]) -> str:
    """Return the SHA-256 of a tree, which must be sorted by path."""
    return hashlib.sha256(b"".join([b"%s\0%s" % item for item in tree.items()])).hexdigest()


def merged(
    archives: Sequence[bytes], *, lowest: bool, keep: Callable[[str, str], bool] = lambda path, kind: True
) -> bytes:
    """Return one archive with the effect of several, applied in order.

    Args:
        lowest: nothing is below the first archive, so whiteouts and opaque marks are left out.
        keep: called with each path and its kind; what it refuses is left out. It refuses all below a directory that it
            refuses.
    """
    # by path: header, content, and the content's origin, which is equal for all names of a file
    merged_records: dict[bytes, tuple[dict[str, Any], memoryview, tuple[int, int]]] = {}
    for number, archive in enumerate(archives):
        changes, view, paths = changes_of(archive), memoryview(archive), sorted(merged_records)
        for hiding in _hiding(changes):
            for path in paths[slice(*_range_below(paths, hiding))]:
                merged_records.pop(path, None)
        for change in changes:
            header = dict(change.header)
            before = merged_records.get(change.path)
            if header["t"] == "d" and before is not None and (before[0]["t"] != "d" or before[0].get("o")):
                header["o"] = 1  # what the lower record hid must stay hidden
            merged_records[change.path] = (header, view[change.content], (number, change.content.start))
    out: list[bytes | memoryview] = []
    written: dict[tuple[int, int], str] = {}
    opaque = b""  # the topmost directory on the way that hides lower layers
    for path in sorted(merged_records, key=lambda path: path.split(b"/")):
        header, content, origin = merged_records[path]
        if not keep(os.fsdecode(path), header["t"]):
            continue
        if not opaque or not path.startswith(opaque):
            opaque = path + b"/" if header.get("o") else b""
        elif header["t"] == "w":
            continue  # nothing is below; a directory in one layer only would show the whiteout's name
        if lowest:
            header.pop("o", None)
            if header["t"] == "w":
                continue
        if content and (first := written.setdefault(origin, header["p"])) != header["p"]:
            header = {"p": header["p"], "t": "h", "m": header["m"], "u": header["u"], "l": first}
            content = content[:0]
        out += [header_line(header).encode(), b"\n", content]
    return b"".join(out)


def _hiding(changes: Iterable[Change]) -> Iterator[bytes]:
    """Yield the topmost paths that hide the files of lower layers below them.

    A hostile guest may send a thousand nested paths, so each file below them is visited only once. In an archive, the
    records below a path follow the path directly.
    """
    above = None
    for change in changes:
        if change.hides and (above is None or not change.path.startswith(above)):
            above = change.path + b"/"
            yield change.path


def _range_below(paths: Sequence[bytes], path: bytes) -> tuple[int, int]:
    """Return the range of the paths below `path` in a sorted list."""
    first = bisect_left(paths, path + b"/")
    return first, bisect_left(paths, path + b"0", first)  # "0" follows "/"
