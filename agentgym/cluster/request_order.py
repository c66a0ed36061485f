"""The order in which the requests of one episode begin: that in which the client made them, whichever arrives first.

Calls of one message travel on several connections. Without an order, two calls that change the same state could give
other results when the episode is repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

MISSING_S = 2.0
"""How long a request waits for earlier ones: one that was cancelled on its way never comes."""

MAX_AHEAD = 10_000
"""Of so many numbers the order is kept."""


class RequestOrder:
    """Lets the requests of an episode begin by their numbers, from 0 on."""

    def __init__(self) -> None:
        self._next = 0
        self._passed: set[int] = set()
        self._advanced = asyncio.Event()

    async def wait(self, number: int, dropped: Iterable[int]) -> None:
        """Wait until every request with a lower number has begun, was dropped, or is overdue.

        Args:
            dropped: numbers that the client says will not come.
        """
        self._pass(dropped)
        try:
            async with asyncio.timeout(MISSING_S):
                while self._next < number:
                    self._advanced.clear()
                    await self._advanced.wait()
        except TimeoutError:
            self._next = max(self._next, number)
        finally:
            self._pass([number])

    def _pass(self, numbers: Iterable[int]) -> None:
        self._passed.update(n for n in numbers if self._next <= n < self._next + MAX_AHEAD)
        while self._next in self._passed:
            self._passed.discard(self._next)
            self._next += 1
        self._advanced.set()
