"""What an archive says about files, without unpacking it: digests, the tree that layers make, layers made into one."""

from __future__ import annotations

import hashlib
import io
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.sandbox.guest.archive import decode, header_line, records


@dataclass(frozen=True, slots=True)
class Change:
    """One record of an archive. `digest`: of kind, mode, link target and content; `content`: where it lies."""

    path: bytes
    header: Mapping[str, Any]
    digest: bytes
    content: slice

    @property
    def hides(self) -> bool:
        """Whether files of lower layers below this path are gone; a plain directory adds to them."""
        return self.header["t"] != "d" or bool(self.header.get("o"))


def changes_of(archive: bytes, *, most: int | None = None) -> list[Change]:
    """The records of an archive, at most so many.

    Raises: ValueError for what is none, or has more: it may come from a hostile sandbox.
    """
    source, view = io.BytesIO(archive), memoryview(archive)
    found: list[Change] = []
    for parts, header, _ in records(source):
        if len(found) == most:
            raise ValueError(f"more than {most} files")
        start = source.tell()
        content = slice(start, start + header.get("n", 0))
        if content.stop > len(archive):
            raise ValueError(f"the stream ends {content.stop - len(archive)} bytes too early")
        kind = header["t"]
        target = decode(header["l"]) if kind == "l" else b""
        mode = 0 if kind == "l" else header.get("m", 0)  # no link has one
        what = b"%s %o %d\n%s" % (kind.encode(), mode, len(target), target)
        digest = hashlib.sha256(what)
        digest.update(view[content])
        found.append(Change(b"/".join(parts), header, digest.digest(), content))
    return found


def digest_of(changes: Iterable[Change]) -> str:
    """SHA-256 over an archive's records, times included."""
    total = hashlib.sha256()
    for change in changes:
        total.update(header_line(change.header).encode() + b"\n" + change.digest)
    return total.hexdigest()


def tree_of(below: Mapping[bytes, bytes], changes: Sequence[Change]) -> dict[bytes, bytes]:
    """Digests by path after changes to a tree, sorted by path. What the changes do not name costs next to nothing."""
    gone: set[bytes] = set()
    paths = sorted(below)
    for change in changes:
        if change.hides:
            gone.update(paths[slice(*_range_below(paths, change.path))])
    after = {path: digest for path, digest in below.items() if path not in gone} if gone else dict(below)
    for change in changes:
        if change.header["t"] == "w":
            after.pop(change.path, None)
        else:
            after[change.path] = change.digest
    return dict(sorted(after.items()))


def id_of(tree: Mapping[bytes, bytes]) -> str:
    """SHA-256 over a tree that is sorted by path."""
    return hashlib.sha256(b"".join([b"%s\0%s" % item for item in tree.items()])).hexdigest()


def merged(archives: Sequence[bytes], *, lowest: bool) -> bytes:
    """One archive that does what these do, one after the other.

    Args:
        lowest: there is nothing below the first one, so nothing is left to hide.
    """
    kept: dict[bytes, tuple[dict[str, Any], memoryview]] = {}  # header and content by path
    for archive in archives:
        changes, view, paths = changes_of(archive), memoryview(archive), sorted(kept)
        for change in changes:
            if change.hides:
                for path in paths[slice(*_range_below(paths, change.path))]:
                    kept.pop(path, None)
        for change in changes:
            header = dict(change.header)
            before = kept.get(change.path)
            if header["t"] == "d" and before is not None and (before[0]["t"] != "d" or before[0].get("o")):
                header["o"] = 1  # what the lower one hid stays hidden
            kept[change.path] = (header, view[change.content])
    out: list[bytes | memoryview] = []
    for path in sorted(kept, key=lambda path: path.split(b"/")):
        header, content = kept[path]
        if lowest:
            header.pop("o", None)
            if header["t"] == "w":
                continue
        out += [header_line(header).encode(), b"\n", content]
    return b"".join(out)


def _range_below(paths: Sequence[bytes], path: bytes) -> tuple[int, int]:
    """Where in sorted paths those below one lie."""
    first = bisect_left(paths, path + b"/")
    return first, bisect_left(paths, path + b"0", first)  # "0" follows "/"
