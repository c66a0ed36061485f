"""Worlds that are costly to prepare are prepared once for each backend, and forked for every episode."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary, WeakValueDictionary

from agentgym.sandbox.contract import Backend, Snapshot

_kept: WeakKeyDictionary[Backend, dict[str, OrderedDict[str, Snapshot]]] = WeakKeyDictionary()
"""What was prepared, by kind and key, the last used last: it lives as long as its backend, or until too much is."""
_making: WeakValueDictionary[tuple[int, int, str, str], asyncio.Lock] = WeakValueDictionary()
"""Held by those who prepare or wait, by event loop, backend, kind and key."""


async def shared_snapshot(
    backend: Backend, kind: str, key: str, prepare: Callable[[], Awaitable[Snapshot]], *, kept: int = 64
) -> Snapshot:
    """The snapshot of a key, prepared if this backend has none yet. Those who ask at once wait for one preparation.

    Args:
        kind: of world, whose snapshots are counted together; `key`: whatever the files depend on.
        kept: of this kind at most, the last used ones; of the others only who still has them knows.
    Raises: what preparing raises, and nothing is kept then.
    """
    place = (id(asyncio.get_running_loop()), id(backend), kind, key)
    lock = _making.setdefault(place, asyncio.Lock())
    async with lock:
        snapshots = _kept.setdefault(backend, {}).setdefault(kind, OrderedDict())
        found = snapshots.pop(key, None) or await prepare()
        snapshots[key] = found
        while len(snapshots) > kept:
            snapshots.popitem(last=False)
    return found
