"""Folders named by their content. A folder gets its name only when it is complete, so a partial index is never read.

    <cache>/search/<digest of the corpus>/<part>/     pages, bm25, lsa-128, ...
    <cache>/search/seen/                              the digests of known files, so that each is hashed once

The cache is $AGENTGYM_CACHE, else agentgym/ in $XDG_CACHE_HOME or ~/.cache. Any folder may be deleted while no
process has it open; it is built again when it is next needed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import mmap
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.sandbox import cache_folder

_SMALL = 1 << 20  # smaller files are read, not mapped: a map needs a descriptor, and there may be many small corpora
_SETTLED_NS = 2_000_000_000  # a file younger than this may change again without a new modification time


def root() -> Path:
    """Return the folder of all indexes. The first index creates it."""
    return cache_folder() / "search"


def made_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """Return the folder. If it does not exist, one process builds it, and renames it when it is complete.

    If a process is killed during the build, nothing reads its folder, and the next builder deletes it.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f".{folder.name}.lock")):
        if folder.is_dir():
            return folder  # another process was faster
        under_way = folder.with_name(f".{folder.name}.building")
        shutil.rmtree(under_way, ignore_errors=True)
        under_way.mkdir()
        try:
            build(under_way)
            for path in under_way.iterdir():
                _to_disk(path)
            under_way.rename(folder)
            _to_disk(folder.parent)
        finally:
            shutil.rmtree(under_way, ignore_errors=True)
    return folder


def digest_of_file(path: Path, version: str) -> str:
    """Return a hash of a file's content and a version; read the file again only if its size, time or path changed."""
    about = path.stat()
    stamp = [str(path.resolve()), about.st_size, about.st_mtime_ns, about.st_ino, version]
    note = root() / "seen" / hashlib.sha256(json.dumps(stamp).encode()).hexdigest()
    if note.is_file():
        return note.read_text()
    digest = hashlib.sha256(version.encode())
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    name = digest.hexdigest()[:32]
    if path.stat().st_mtime_ns == about.st_mtime_ns < time.time_ns() - _SETTLED_NS:
        note.parent.mkdir(parents=True, exist_ok=True)
        partial = note.with_name(f"{note.name}.{os.getpid()}")
        partial.write_text(name)
        partial.replace(note)
    return name


def digest_of_bytes(content: bytes, version: str) -> str:
    """Return the digest that `digest_of_file` returns for a file with this content."""
    return hashlib.sha256(version.encode() + content).hexdigest()[:32]


def array_at(path: Path) -> NDArray[Any]:
    """Return a read-only array of a finished index. A large array is memory-mapped, so that all processes share one
    copy; a small array is read.
    """
    array: NDArray[Any] = np.load(path, mmap_mode="r" if path.stat().st_size > _SMALL else None)
    return array.view(np.ndarray)


def bytes_at(path: Path) -> bytes | mmap.mmap:
    """Return the bytes of a file of a finished index, mapped or read like an array in `array_at`."""
    if path.stat().st_size <= _SMALL:
        return path.read_bytes()
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
