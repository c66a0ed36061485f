"""Stand-ins for the driver's policy and ledger in an episode on a worker; they write to the worker's mailbox."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agentgym.errors import PolicyError
from agentgym.policy.account import check_reported
from agentgym.policy.contract import Policy, Reply, Request
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn

Event = tuple[Any, ...]
"""An event: its kind, a number, and the data that belongs to the kind."""


LINGER_S = 0.1
"""How long a finished turn waits on its worker for others, since each delivery costs the driver about as much."""


class Mailbox:
    """A worker's uncollected events, and its requests that wait for the driver's answer.

    Attributes:
        direct: the number of open requests to the policy's server, which do not wait for the driver.
    """

    def __init__(self) -> None:
        self.direct = 0
        self._events: list[Event] = []
        self._has_some, self._has_urgent = asyncio.Event(), asyncio.Event()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count()

    @property
    def asking(self) -> int:
        """The number of open requests to the policy."""
        return len(self._waiting) + self.direct

    def put(self, event: Event, *, waits: bool = False) -> None:
        """Add an event. `waits`: it may wait for LINGER_S, so that further ones travel with it."""
        self._events.append(event)
        self._has_some.set()
        if not waits:
            self._has_urgent.set()

    async def take(self, wait_s: float) -> list[Event]:
        """Return all events since the last call; wait up to `wait_s` seconds for one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._has_some.wait()
            async with asyncio.timeout(LINGER_S):
                await self._has_urgent.wait()
        events, self._events = self._events, []
        self._has_some.clear()
        self._has_urgent.clear()
        return events

    async def ask(self, episode: int | None, method: str, *arguments: Any) -> Any:
        """Call a policy method at the driver and return its answer. Raises: the method's error."""
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self.put(("ask", episode, number, method, arguments))
        try:
            return await waiting
        finally:
            del self._waiting[number]

    def answer(self, number: int, value: Any) -> None:
        """Pass the driver's answer to the request of this number; an exception is raised there."""
        waiting = self._waiting.get(number)
        if waiting is None or waiting.done():
            return  # the episode was cancelled
        if isinstance(value, BaseException):
            waiting.set_exception(value)
        else:
            waiting.set_result(value)


class RelayedPolicy(Policy):
    """The driver's policy, as seen by an episode on a worker.

    Args:
        episode: its number; None for a judge that asks the playing policy.
        facts: name, renderer, version and context_tokens of the policy.
    """

    def __init__(self, mailbox: Mailbox, episode: int | None, facts: Mapping[str, Any]) -> None:
        self._mailbox, self._episode = mailbox, episode
        self.name, self.renderer = facts["name"], facts["renderer"]
        self.version, self.context_tokens = facts["version"], facts["context_tokens"]

    async def generate(self, request: Request) -> Reply:
        """Ask the driver's policy for a reply."""
        reply: Reply = await self._mailbox.ask(self._episode, "generate", request)
        return reply

    async def score(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int]) -> list[float]:
        """Ask the driver's policy for log-probabilities."""
        scores: list[float] = await self._mailbox.ask(self._episode, "score", prefix_ids, continuation_ids)
        return scores


class DirectPolicy(Policy):
    """A copy of the driver's policy on a worker, which asks the policy's server itself.

    While the driver is silent, no request is sent and no reply is used: it may have given this worker up, and replaced
    the weights on the server.

    Args:
        heard: waits until the driver has been heard recently.
    """

    def __init__(
        self, mailbox: Mailbox, episode: int | None, copy: Policy, heard: Callable[[], Awaitable[None]]
    ) -> None:
        self._mailbox, self._episode, self._copy, self._heard = mailbox, episode, copy, heard
        self.name, self.renderer, self.context_tokens = copy.name, copy.renderer, copy.context_tokens

    @property
    def version(self) -> int:  # type: ignore[override]
        return self._copy.version

    async def check(self, request: Request) -> None:
        await self._copy.check(request)

    async def generate(self, request: Request) -> Reply:
        self._mailbox.direct += 1
        try:
            await self._heard()
            reply = await self._copy.generate(request)
            await self._heard()
        finally:
            self._mailbox.direct -= 1
        self._mailbox.put(("replied", self._episode), waits=True)
        return reply

    async def score(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int]) -> list[float]:
        await self._heard()
        scores = await self._copy.score(prefix_ids, continuation_ids)
        await self._heard()
        return scores

    async def entropies(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int], top: int) -> list[float]:
        await self._heard()
        entropies = await self._copy.entropies(prefix_ids, continuation_ids, top)
        await self._heard()
        return entropies

    def episode_started(self, episode: str) -> None:
        self._copy.episode_started(episode)

    def episode_ended(self, episode: str) -> None:
        self._copy.episode_ended(episode)


class RelayedAccount:
    """The account of the driver's run, as seen on a worker: each paid request is reported to the driver.

    Args:
        refusal: why the driver allows no more requests; empty while it does.
    """

    def __init__(self, mailbox: Mailbox, refusal: str) -> None:
        self._mailbox, self.refusal = mailbox, refusal

    def check(self) -> None:
        """Raise PolicyError if the driver allows no more requests."""
        if self.refusal:
            raise PolicyError(self.refusal)

    def charge(self, policy: str, *, prompt_tokens: int, completion_tokens: int) -> None:
        """Report an answered request. Raises: PolicyError if the server does not report the number of tokens."""
        check_reported(policy, prompt_tokens, completion_tokens)
        self._mailbox.put(("paid", None, policy, prompt_tokens, completion_tokens))


class RelayedLedger:
    """Sends each finished turn to the driver, which alone writes the ledger."""

    def __init__(self, mailbox: Mailbox, episode: int) -> None:
        self._mailbox, self._episode = mailbox, episode

    def begin(self, trajectory: Trajectory) -> None:
        """Report that the episode starts or restarts."""
        self._mailbox.put(("begin", self._episode), waits=True)

    async def write_turn(self, trajectory: Trajectory, turn: Turn) -> None:
        """Send a turn; the first comes with the episode's other fields."""
        head = replace(trajectory, turns=[]) if turn.index == 0 else None
        self._mailbox.put(("turn", self._episode, turn, head), waits=True)
