"""Reads the archives of an image, which may be hostile: only forwards, in bounded pieces, and hashing as it reads."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import tarfile
import zlib
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from agentgym.sandbox.rootfs.tree import ImageError, RootfsTree, members

_MAX_READ_BYTES = 1 << 20  # the most bytes per read; tarfile would read a larger archive header into memory
_PACKED_PIECE = 1 << 16
_HEADERS = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
_MAX_XZ_MEMORY = 256 << 20
_FIRST = 8  # how many entries are read to find out what an archive contains
_DAMAGE_ERRORS = (
    EOFError,
    OSError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    ValueError,
    RecursionError,
    OverflowError,
)


def unpack_archive(tree: RootfsTree, file: BinaryIO, *, blob_digest: str = "", archive_digest: str = "") -> None:
    """Unpack an archive over a tree. The digests, if given, are of the file and of the decompressed archive.

    Raises: ImageError if it is damaged, hostile or does not have these digests.
    """
    try:
        blob = ForwardReader(file)
        content = ForwardReader(_decompressed(blob))
        with _opened(content) as archive:
            tree.apply(archive)
        if any(content.last):  # tarfile takes an invalid header for the end, but a true end is zeros
            raise ImageError("An archive of the image is damaged: its last header is invalid. Save the image again.")
        content.finish(archive_digest)
        blob.finish(blob_digest)
    except ImageError:
        raise
    except _DAMAGE_ERRORS as error:
        raise ImageError(
            f"An archive of the image is damaged ({type(error).__name__}: {error!s:.300}). Save the image again."
        ) from error


def first_names(path: Path) -> list[str]:
    """Return the names of the first entries. Raises: ImageError if the file is not an archive."""
    try:
        with open(path, "rb") as file, _opened(ForwardReader(_decompressed(ForwardReader(file)))) as archive:
            return [member.name.removeprefix("./") for member in islice(members(archive), _FIRST)]
    except _DAMAGE_ERRORS as error:
        raise ImageError(
            f"{path} is not an archive of an image ({error!s:.200}). Give a tar, plain or compressed with gzip, bzip2 "
            "or xz."
        ) from error


class ForwardReader(io.RawIOBase):
    """A stream read once, from start to end.

    No archive can make it read for ever (by an entry of negative size) or read everything into memory.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source, self._position, self._hash = source, 0, hashlib.sha256()
        self.last = b""  # the bytes of the last read

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Read bytes. Raises: ImageError for a larger read than any honest archive needs."""
        if not 0 <= size <= _MAX_READ_BYTES:
            raise _too_large(size)
        piece = self._source.read(size)
        self._hash.update(piece)
        self._position += len(piece)
        self.last = piece
        return piece

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Skip forwards. Raises: ImageError for any other seek."""
        if whence != os.SEEK_SET or offset < self._position:
            raise ImageError(
                "An archive of the image is damaged: it refers back to data that was already read. Save the image "
                "again."
            )
        while self._position < offset and self.read(min(offset - self._position, _MAX_READ_BYTES)):
            pass
        return self._position

    def finish(self, digest: str) -> None:
        """Read the rest. Raises: ImageError if the digest of the whole stream is not the given one."""
        while self.read(_MAX_READ_BYTES):
            pass
        actual = f"sha256:{self._hash.hexdigest()}"
        if digest and digest != actual:
            raise ImageError(
                f"A part of the image is damaged or was changed: its digest is {actual}, not {digest}. Save the image "
                "again."
            )


class _PrefixedReader(io.RawIOBase):
    """Replays the bytes already read from a stream's start, then reads the rest."""

    def __init__(self, head: bytes, rest: ForwardReader) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece, self._head = self._head[:size], self._head[size:]
        return piece + self._rest.read(size - len(piece)) if len(piece) < size else piece


class _DecompressingReader(io.RawIOBase):
    """Reads the output of a decompressor, never more at once than requested."""

    def __init__(self, decompressor: bz2.BZ2Decompressor | lzma.LZMADecompressor, source: BinaryIO) -> None:
        self._decompressor, self._source = decompressor, source

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        pieces: list[bytes] = []
        while size > 0 and not self._decompressor.eof:
            packed = self._source.read(_PACKED_PIECE) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not packed:
                raise EOFError("the archive ends too early")
            piece = self._decompressor.decompress(packed, size)
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def _decompressed(blob: ForwardReader) -> BinaryIO:
    """Return a decompressed stream; the first bytes tell the compression."""
    head = blob.read(6)
    stream = cast(BinaryIO, _PrefixedReader(head, blob))
    if head.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, gzip.GzipFile(fileobj=stream))
    if head.startswith(b"BZh"):
        return cast(BinaryIO, _DecompressingReader(bz2.BZ2Decompressor(), stream))
    if head == b"\xfd7zXZ\x00":
        return cast(BinaryIO, _DecompressingReader(lzma.LZMADecompressor(memlimit=_MAX_XZ_MEMORY), stream))
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        raise ImageError(
            "An archive of the image is compressed with zstd, which is not supported. Save it with gzip, or "
            "uncompressed."
        )
    return stream


class _Entry(tarfile.TarInfo):
    """An entry of an archive. Its headers are bounded: newer Pythons read a large one in pieces, and hold all of it."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _HEADERS and self.size > _MAX_READ_BYTES:
            raise _too_large(self.size)
        return cast(tarfile.TarInfo, super()._proc_member(archive))  # type: ignore[misc]


def _too_large(size: int) -> ImageError:
    return ImageError(f"An archive of the image is damaged: a header claims {size} bytes. Save the image again.")


def _opened(content: ForwardReader) -> tarfile.TarFile:
    options: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape"}
    return tarfile.open(fileobj=cast(BinaryIO, content), mode="r:", tarinfo=_Entry, **options)
