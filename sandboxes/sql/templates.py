"""Sandboxes that are costly to prepare are prepared once for each database, and forked for each episode."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

from agentgym.sandbox import Snapshot

KEPT = 16


class Templates:
    """Snapshots by key, the last ones asked for. Two that ask for the same at once wait for one preparation."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._snapshots: OrderedDict[str, Snapshot] = OrderedDict()
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]] = WeakKeyDictionary()

    async def get(self, key: str, prepare: Callable[[], Awaitable[Snapshot]]) -> Snapshot:
        """The snapshot of a key, prepared if need be. Raises: what preparing raises."""
        locks = self._locks.setdefault(asyncio.get_running_loop(), {})
        async with locks.setdefault(key, asyncio.Lock()):
            if key not in self._snapshots:
                self._snapshots[key] = await prepare()
            self._snapshots.move_to_end(key)
            found = self._snapshots[key]
        locks.pop(key, None)
        while len(self._snapshots) > self._kept:
            self._snapshots.popitem(last=False)
        return found
