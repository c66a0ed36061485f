"""What copies of a policy on other nodes must know of its server: which weights answer, and when to hold requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Send = Callable[[Any], "asyncio.Future[frozenset[str]]"]
"""Sends a state to the copies at once. The future has the models and adapters that they still use, once all have it."""


class ServerRequests:
    """The open requests of a policy, by the model or adapter that answers. They can be held while weights change."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._released: asyncio.Event | None = None  # while requests are held
        self._drained: asyncio.Event | None = None  # while someone waits until none is open

    @property
    def are_held(self) -> bool:
        return self._released is not None

    def hold(self) -> None:
        """Let no further request begin until `release`."""
        self._released = self._released or asyncio.Event()

    def release(self) -> None:
        for event in (self._released, self._drained):
            if event is not None:
                event.set()
        self._released = self._drained = None

    async def settled(self) -> frozenset[str]:
        """If requests are held, wait until none is open. Returns: the models and adapters that open requests use."""
        while self.are_held and self._open.total():
            self._drained = self._drained or asyncio.Event()
            await self._drained.wait()
        return frozenset(name for name, count in self._open.items() if count)

    async def admitted(self) -> None:
        """Wait while requests are held."""
        while self._released is not None:
            await self._released.wait()

    @contextmanager
    def request(self, model: str) -> Iterator[None]:
        """Count a request to a model as open."""
        self._open[model] += 1
        try:
            yield
        finally:
            self._open[model] -= 1
            if self._drained is not None and not self._open.total():
                self._drained.set()
                self._drained = None


class ServedWeights:
    """The part of a policy that says which weights its server answers with. Copies on other nodes take its state."""

    def __init__(self) -> None:
        self._sends: list[Send] = []

    @property
    def state(self) -> Any:
        """The state, as plain data."""
        raise NotImplementedError

    def take(self, state: Any) -> None:
        """Take the state of the original; requests begun from now on obey it."""
        raise NotImplementedError

    async def settled(self) -> frozenset[str]:
        """If requests are held, wait until none is open. Returns: the models and adapters that open requests use."""
        return frozenset()

    def attach(self, send: Send) -> Callable[[], None]:
        """Send each further state to some copies. Returns: a function that ends this."""
        self._sends.append(send)
        return lambda: self._sends.remove(send)

    def share(self) -> asyncio.Future[list[frozenset[str]]]:
        """Send the state to all copies at once. Returns: what each group of copies still uses, once it has it."""
        return asyncio.gather(*(send(self.state) for send in self._sends))
