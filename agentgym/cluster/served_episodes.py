"""The open episodes of an environment server: their limits, owners and leases."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from agentgym.cluster.operations import OPERATIONS, InvalidRequest, Operation
from agentgym.cluster.wire import error_to_json, tools_to_json
from agentgym.environment.contract import Environment
from agentgym.number_types import Positive
from agentgym.options import validated_dataclass
from agentgym.rollout.environment_handle import close_environment
from agentgym.sandbox.time_limit import TimeLimit
from agentgym.tools.definition import Tool

MISSING_S = 2.0
"""How long a request waits for earlier ones: a request cancelled in transit never arrives."""

MAX_AHEAD = 10_000
"""How far request numbers may run ahead and still be ordered."""


class RequestOrder:
    """Starts the requests of an episode in the order of their numbers, from 0."""

    def __init__(self) -> None:
        self._next = 0
        self._passed: set[int] = set()
        self._advanced = asyncio.Event()

    async def wait(self, number: int, dropped: Iterable[int]) -> None:
        """Wait until every request with a lower number has begun, was dropped, or is overdue.

        Args:
            dropped: numbers of requests that the client will not send.
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


_REMEMBERED = 10_000
"""The number of ended episodes whose reason the server remembers."""
_CANCEL_S = 10.0
"""How long cancelled requests may take to end before the environment is closed anyway."""

Count = Annotated[int, Field(ge=1)]


@validated_dataclass(kw_only=True)
class ServerLimits:
    """The limits on what clients may use of an environment server.

    Raises: ValueError naming each invalid field.
    """

    episodes: Count = 64
    """How many episodes may be open at the same time. A further request waits."""
    episodes_per_token: Count | None = None
    """How many episodes of the clients with one token may be open at the same time. By default a token has no
    separate limit."""
    lease_s: Positive = 60.0
    """An episode whose client was silent for this many seconds is closed."""
    wait_s: Positive = 10.0
    """How many seconds a request for an episode waits for room before the client is told to ask again."""
    waiting: Count = 1024
    """How many requests for an episode may wait at the same time."""
    requests_per_episode: Count = 64
    """How many requests of one episode may run at the same time."""
    message_mib: Count = 16
    """The size of the largest request in MiB, unless it brings a checkpoint."""
    checkpoint_mib: Count = 256
    """The size of the largest request that brings a checkpoint, in MiB."""
    request_s: Positive = 30.0
    """How many seconds a client may take to send a request."""
    connections: Annotated[int, Field(ge=8)] = 2048
    """How many connections may be open at the same time, all clients together."""


class ServerRefusal(Exception):
    """A request that is refused with a reason instead of being run.

    Attributes:
        status: the HTTP status. kind: the name of the reason, for programs.
    """

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


@dataclass(eq=False, slots=True)
class ServedEpisode:
    """One open environment.

    Attributes:
        owner: the number of the token that opened it.
        ends_at: when its lease ends, on the event loop's clock.
        running: its running requests.
        tools: the tools last described to the client; `tools_number` counts the descriptions.
    """

    id: str
    environment: Environment
    owner: int
    ends_at: float
    running: set[asyncio.Task[Any]] = field(default_factory=set)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    tools_number: int = 0
    order: RequestOrder = field(default_factory=RequestOrder)


class EpisodeTable:
    """Opens, finds, runs and closes episodes.

    Args:
        make: makes an environment from its registered id and options.
    """

    def __init__(self, make: Callable[..., Environment], limits: ServerLimits) -> None:
        self._make, self._limits = make, limits
        self._episodes: dict[str, ServedEpisode] = {}
        self._ended: OrderedDict[str, tuple[int, str]] = OrderedDict()  # owner and reason, by id
        self._taken: Counter[int] = Counter()  # slots by owner; closing an environment frees its slot
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._is_closing = False

    def __len__(self) -> int:
        return self._taken.total()

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    async def open(self, owner: int, name: str, options: Mapping[str, Any], *, wait_s: float) -> ServedEpisode:
        """Wait for room and return a new episode. Raises: ServerRefusal; any error of making the environment."""
        await self._take_slot(owner, min(wait_s, self._limits.wait_s))
        try:
            environment = self._make(name, **options)
            environment.is_remote = True
        except BaseException:
            self._free_slot(owner)
            raise
        episode = ServedEpisode(secrets.token_urlsafe(18), environment, owner, self._lease_end())
        episode.tools = environment.tools
        self._episodes[episode.id] = episode
        return episode

    def find(self, owner: int, episode_id: str) -> ServedEpisode:
        """Renew the lease of an owner's open episode and return the episode. Raises: ServerRefusal."""
        episode = self._episodes.get(episode_id)
        if episode is not None and episode.owner == owner:
            episode.ends_at = self._lease_end()
            return episode
        ended_owner, reason = self._ended.get(episode_id, (None, ""))
        if ended_owner == owner:
            raise ServerRefusal(410, "lease_lost", reason)
        raise ServerRefusal(
            410,
            "lease_lost",
            (
                "The server does not know this episode: it was restarted, or it never opened the episode. Open a "
                "new one."
            ),
        )

    def renew(self, owner: int, episode_ids: Collection[str]) -> dict[str, str]:
        """Renew the leases of an owner's episodes. Returns: for each closed episode, the reason."""
        lost = {}
        for episode_id in episode_ids:
            try:
                self.find(owner, episode_id)
            except ServerRefusal as refused:
                lost[episode_id] = str(refused)
        return lost

    async def run(self, episode: ServedEpisode, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run one operation of an environment, for the time that the client allows.

        Returns: its value or error, or that its time is up; the seconds that counted; and the environment's state:
            whether it has ended, its image digests, and its tools if the client does not know them yet.
        Raises: ServerRefusal for an unknown operation, or too many at once.
        """
        if len(episode.running) >= self._limits.requests_per_episode:
            raise ServerRefusal(
                429,
                "too_many_requests",
                (
                    f"{len(episode.running)} requests of this episode are already running, which is the limit. "
                    "Wait for one of them."
                ),
            )
        if (work := OPERATIONS.get(operation)) is None:
            raise ServerRefusal(404, "unknown_operation", f"There is no operation {operation[:40]!r}.")
        task = asyncio.ensure_future(_in_order(episode, work, arguments))
        episode.running.add(task)
        limit = TimeLimit(_limit_s(arguments))
        try:
            with limit:
                reply: dict[str, Any] = {"value": await task}
        except asyncio.CancelledError:
            if episode.id not in self._episodes:
                raise ServerRefusal(
                    410, "lease_lost", self._ended.get(episode.id, (0, "The episode was closed."))[1]
                ) from None
            raise
        except InvalidRequest as error:
            raise ServerRefusal(400, "bad_request", str(error)) from error
        except Exception as error:  # noqa: BLE001  the client raises any error of the environment
            is_late = isinstance(error, TimeoutError) and limit.expired
            reply = {"time_is_up": True} if is_late else {"error": error_to_json(error)}
        finally:
            task.cancel()
            episode.running.discard(task)
            episode.ends_at = self._lease_end()
        return reply | {"counted_s": limit.counted_s} | self._changes(episode, arguments.get("tools_number"))

    def _changes(self, episode: ServedEpisode, known: object) -> dict[str, Any]:
        environment = episode.environment
        if environment.tools is not episode.tools:
            episode.tools, episode.tools_number = environment.tools, episode.tools_number + 1
        changes: dict[str, Any] = {
            "ended": environment.ended,
            "image_digests": environment.sandboxes.image_digests,
            "weaker_limits": environment.sandboxes.weaker_limits,
        }
        if known != episode.tools_number:
            changes["tools"] = {"number": episode.tools_number, "tools": tools_to_json(environment)}
        return changes

    async def close(self, episode: ServedEpisode, reason: str = "It was closed.") -> str | None:
        """Cancel an episode's requests and close its environment. Returns: the error of closing, if any."""
        if self._episodes.pop(episode.id, None) is None:
            return None
        self._ended[episode.id] = (episode.owner, reason)
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
        try:
            running = [*episode.running]
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=_CANCEL_S)
            return await close_environment(episode.environment)
        finally:
            self._free_slot(episode.owner)

    async def expire(self) -> int:
        """Close the episodes whose lease has ended. Returns: their number."""
        now = asyncio.get_running_loop().time()
        reason = f"Its lease ended: the server had heard nothing of it for {self._limits.lease_s:g} s."
        ended = [episode for episode in self._episodes.values() if episode.ends_at <= now]
        await asyncio.gather(*(self.close(episode, reason) for episode in ended))
        return len(ended)

    async def close_all(self) -> None:
        """Close every episode, and refuse new ones."""
        self._is_closing = True
        for _, waiter in self._waiters:
            waiter.cancel()
        await asyncio.gather(*(self.close(episode, "The server ended.") for episode in [*self._episodes.values()]))

    async def _take_slot(self, owner: int, wait_s: float) -> None:
        limits = self._limits
        if self._is_closing:
            raise ServerRefusal(503, "full", "The server is shutting down.")
        if not self._waiters and self._has_room(owner):
            self._taken[owner] += 1
            return
        full = f"{len(self)} episodes are open, which is all that this server or its share for this token allows."
        if len(self._waiters) >= limits.waiting:
            raise ServerRefusal(503, "full", full)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((owner, waiter))
        self._serve_waiters()
        try:
            async with asyncio.timeout(wait_s):
                await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled():
                self._free_slot(owner)
            elif (owner, waiter) in self._waiters:
                self._waiters.remove((owner, waiter))
            if isinstance(error, TimeoutError) or self._is_closing:
                raise ServerRefusal(503, "full", full) from error
            raise

    def _has_room(self, owner: int) -> bool:
        most = self._limits.episodes_per_token or self._limits.episodes
        return len(self) < self._limits.episodes and self._taken[owner] < most

    def _free_slot(self, owner: int) -> None:
        self._taken[owner] -= 1
        self._serve_waiters()

    def _serve_waiters(self) -> None:
        """Give free slots to waiters in order, skipping owners whose share is used up."""
        for entry in [*self._waiters]:
            owner, waiter = entry
            if not waiter.done() and self._has_room(owner):
                self._taken[owner] += 1
                self._waiters.remove(entry)
                waiter.set_result(None)

    def _lease_end(self) -> float:
        return asyncio.get_running_loop().time() + self._limits.lease_s


def _limit_s(arguments: Mapping[str, Any]) -> float:
    """Return the seconds that an operation may take. Raises: ServerRefusal."""
    limit_s = arguments.get("limit_s")
    if not isinstance(limit_s, int | float) or not 0 < limit_s < math.inf:
        raise ServerRefusal(400, "bad_request", "A request must have in `limit_s` the seconds that it may take.")
    return limit_s


async def _in_order(episode: ServedEpisode, work: Operation, arguments: Mapping[str, Any]) -> Any:
    """Run an operation once the earlier requests have begun. Raises: InvalidRequest; the operation's error."""
    number, dropped = arguments.get("number"), arguments.get("dropped")
    if not isinstance(number, int) or not isinstance(dropped, list) or not all(isinstance(n, int) for n in dropped):
        raise InvalidRequest(
            "A request must have its `number`, and in `dropped` the numbers of the requests that will not come."
        )
    await episode.order.wait(number, dropped)
    return await work(episode.environment, arguments)
