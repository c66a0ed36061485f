"""Caches snapshots that are slow to prepare: each is prepared once per backend, and all episodes start from it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary, WeakValueDictionary

from agentgym.sandbox.contract import Backend, Snapshot


class SnapshotCache:
    """Snapshots by backend, kind and key. They are dropped together with their backend."""

    def __init__(self) -> None:
        # by backend, then kind, then key, the least recently used first
        self._snapshots: WeakKeyDictionary[Backend, dict[str, OrderedDict[str, Snapshot]]] = WeakKeyDictionary()
        # one lock per event loop, backend, kind and key; it exists while a caller holds it or waits for it
        self._locks: WeakValueDictionary[tuple[int, int, str, str], asyncio.Lock] = WeakValueDictionary()

    async def get(
        self, backend: Backend, kind: str, key: str, prepare: Callable[[], Awaitable[Snapshot]], *, kept: int = 64
    ) -> Snapshot:
        """Return the snapshot of a key, as `shared_snapshot` does."""
        lock_key = (id(asyncio.get_running_loop()), id(backend), kind, key)
        lock = self._locks.setdefault(lock_key, asyncio.Lock())
        async with lock:
            snapshots = self._snapshots.setdefault(backend, {}).setdefault(kind, OrderedDict())
            snapshot = snapshots.pop(key, None) or await prepare()
            snapshots[key] = snapshot
            while len(snapshots) > kept:
                snapshots.popitem(last=False)
        return snapshot


_default = SnapshotCache()
"""The cache of this process, which `shared_snapshot` uses."""


async def shared_snapshot(
    backend: Backend, kind: str, key: str, prepare: Callable[[], Awaitable[Snapshot]], *, kept: int = 64
) -> Snapshot:
    """Return the snapshot of a key, prepared if this backend has none yet. Concurrent callers share one preparation.

    Args:
        backend: the snapshot is kept for as long as this backend exists.
        kind: what is prepared ("repository", "database"). The limit `kept` applies to each kind separately.
        key: names everything that the files depend on.
        prepare: makes the snapshot. It is awaited by the first caller.
        kept: how many snapshots of this kind are kept: the most recently used. Others are prepared again when needed.
    Raises: any error of `prepare`; then nothing is kept.
    """
    return await _default.get(backend, kind, key, prepare, kept=kept)
