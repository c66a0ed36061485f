"""What a build of a terminal task makes, and how builds that would make the same wait for each other."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agentgym import SandboxUnavailable
from agentgym.sandbox import cache_folder, rootfs

from .build_steps import ImageConfig

POLL_S = 0.2
FAILED_S = 600.0


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image in the cache or in Docker's daemon: its digest, and what it says about its commands."""

    digest: str
    config: ImageConfig


def records() -> Path:
    """Return the folder of records. Raises: SandboxUnavailable if it is another user's, who could name other images."""
    folder = cache_folder() / "builds"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        owner = folder.stat().st_uid
    except OSError as error:
        raise SandboxUnavailable(f"No images can be built in {folder} ({error}). Set AGENTGYM_CACHE.") from error
    if owner != os.geteuid():
        raise SandboxUnavailable(f"{folder} belongs to another user. Set AGENTGYM_CACHE to a folder of yours.")
    return folder


@contextlib.asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Hold a lock among all tasks of all processes."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(POLL_S)
        yield
    finally:
        os.close(descriptor)


async def recorded_image(key: str, make: Callable[[Path], Awaitable[rootfs.RootFilesystem]]) -> rootfs.RootFilesystem:
    """Return the image recorded under a key; make and record it if there is none, or it has left the cache.

    Args: `make`, called with the path of the record.
    Raises: SandboxUnavailable if the cache cannot be written; what `make` raises.
    """
    record = await asyncio.to_thread(records) / f"{key}.json"
    if (known := await asyncio.to_thread(_known, record)) is not None:
        return known
    async with locked(record.with_suffix(".lock")):
        if (known := await asyncio.to_thread(_known, record)) is not None:
            return known  # another process was faster
        image = await make(record)
        draft = record.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps({"digest": image.digest}))
        draft.replace(record)
        return image


def _known(record: Path) -> rootfs.RootFilesystem | None:
    """Return the image of a record; None without a record, or if the image has left the cache."""
    try:
        digest = json.loads(record.read_text())["digest"]
        return rootfs.prepare_rootfs(str(digest), as_root=True)
    except (FileNotFoundError, ValueError, KeyError, TypeError, SandboxUnavailable):
        return None


def remember_failure(path: Path, conditions: Sequence[object], about: Sequence[object]) -> None:
    """Write down what is to be said about a failure. `conditions`: what it depends on, beside the content."""
    path.write_text(json.dumps([_process(), *conditions, list(about)]))


def remembered_failure(path: Path, conditions: Sequence[object]) -> list[Any]:
    """Return what is to be said if the same has failed here just now: the plays of one task need not fail anew.

    Returns: an empty list if it has not.
    """
    try:
        if time.time() - path.stat().st_mtime > FAILED_S:
            return []
        *before, about = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return []
    return list(about) if before == [_process(), *conditions] else []


@cache
def _process() -> str:
    """Return a name for this process."""
    return secrets.token_hex(8)
