"""Several policy servers as one policy: an episode stays on its server; a server that fails or hangs is taken out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from typing_extensions import override

from agentgym.errors import ContextFull, PolicyError
from agentgym.policy.contract import Policy, Reply, Request
from agentgym.policy.served_weights import ServedWeights

FAILURES = 2
"""Failures in a row after which a server is taken out. A single failure may be the request's fault."""
HEALTH_S = 5.0
"""Time limit of a health check. A server that is out must pass a check before it gets new weights."""
T = TypeVar("T")


class _Server:
    """One policy of the pool.

    Attributes:
        episodes: the episodes assigned to this server.
        running: the number of requests being answered.
        failures: failures since the last answer.
        reason: why the server was taken out; empty if it is in use.
        health: the running health check of a server that is out.
        is_unreached: whether this process cannot reach it at all, though the original of the policy may.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.episodes: set[str] = set()
        self.running = 0
        self.failures = 0
        self.reason = ""
        self.health: asyncio.Task[bool] | None = None
        self.is_unreached = False

    @property
    def load(self) -> tuple[int, int, int]:
        return self.failures, len(self.episodes), self.running

    def is_back(self) -> bool:
        """Return whether a server that is out has passed a health check. Never waits: it only starts the check."""
        check: Callable[[], Awaitable[None]] | None = getattr(self.policy, "check_health", None)
        if check is None:
            return True
        if self.health is None:
            self.health = asyncio.ensure_future(_succeeds(check))
        if not self.health.done():
            return False
        health, self.health = self.health, None
        return not health.cancelled() and health.result()


class PolicyPool(ServedWeights, Policy):
    """Assigns each episode to the server with the fewest episodes, and keeps it there, where its prefix is cached.

    A failure or a missed deadline fails the turn (PolicyError) and frees its episode, so that the retry of the turn
    goes to another server: any server can continue the turn's tokens. All servers in use have the same weights, because
    a server that did not load a new version is taken out, until it loads a later version.

    Args:
        policies: at least one policy, all of the same model; closed with the pool.
        deadline_s: the time limit of a request, in seconds, after which a server counts as hanging.
    Raises: ValueError without a policy, or for a deadline that is not above 0.
    """

    def __init__(self, policies: Sequence[Policy], *, deadline_s: float = 300.0) -> None:
        if not policies:
            raise ValueError("A PolicyPool needs at least one policy.")
        if not deadline_s > 0:
            raise ValueError(f"deadline_s = {deadline_s!r} is not valid: give a number of seconds above 0.")
        super().__init__()
        self._servers, self._deadline_s = [_Server(policy) for policy in policies], deadline_s
        self._server_of: dict[str, _Server] = {}
        first = policies[0]
        self.name, self.renderer, self.version = f"pool:{first.name}", first.renderer, first.version
        self.context_tokens = min((size for policy in policies if (size := policy.context_tokens)), default=None)

    @override
    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "model": self._servers[0].policy}

    @override
    def copier(self) -> Callable[[], Policy] | None:
        """Return what makes a pool on another node; None if a policy has no copies, or a subclass answers otherwise."""
        if type(self).generate is not PolicyPool.generate:
            return None
        makers = [maker for server in self._servers if (maker := server.policy.copier()) is not None]
        return partial(_pool_of, makers, self._deadline_s) if len(makers) == len(self._servers) else None

    @override
    async def check_reach(self) -> None:
        """Take out the servers that this process does not reach. Raises: PolicyError if it reaches none."""
        checks = (server.policy.check_reach() for server in self._servers)
        for server, failure in zip(self._servers, await asyncio.gather(*checks, return_exceptions=True), strict=True):
            if isinstance(failure, BaseException):
                server.is_unreached = True
                self._take_out(server, str(failure))
        self._least_loaded()

    @property
    def served_weights(self) -> Sequence[ServedWeights]:  # type: ignore[override]
        return (self, *(part for server in self._servers for part in server.policy.served_weights))

    @property
    def state(self) -> tuple[int, list[str]]:
        """The version of the weights, and why each server is out; empty for one in use."""
        return self.version, [server.reason for server in self._servers]

    @override
    def take(self, state: Any) -> None:
        self.version, reasons = state
        for server, reason in zip(self._servers, reasons, strict=True):
            if reason:
                self._take_out(server, reason)
            elif not server.is_unreached:
                server.reason, server.failures = "", 0

    @property
    def out(self) -> dict[str, str]:
        """Why each server that is out was taken out, by its number and name."""
        return {
            f"{number}:{server.policy.name}": server.reason
            for number, server in enumerate(self._servers)
            if server.reason
        }

    @override
    async def check(self, request: Request) -> None:
        """Let a server check the constraints of a request."""
        await (self._server_of.get(request.episode) or self._servers[0]).policy.check(request)

    async def generate(self, request: Request) -> Reply:
        """Sample a reply on the server of the episode. Raises: PolicyError also when no server is left."""
        server = self._server_of.get(request.episode) or self._assign(request.episode)
        return await self._ask(server, lambda: server.policy.generate(request), request.episode)

    async def score(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int]) -> list[float]:
        """Score a text on the least loaded server."""
        server = self._least_loaded()
        return await self._ask(server, lambda: server.policy.score(prefix_ids, continuation_ids))

    async def entropies(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int], top: int) -> list[float]:
        """Measure entropies on the least loaded server."""
        server = self._least_loaded()
        return await self._ask(server, lambda: server.policy.entropies(prefix_ids, continuation_ids, top))

    async def refresh(self) -> None:
        """Load the current weights on every server."""
        try:
            await self._publish(lambda policy: policy.refresh())
            self.version = max(server.policy.version for server in self._servers if not server.reason)
        finally:
            self.share()

    async def update_weights(self, path: str, *, version: int | None = None) -> None:
        """Make every server load a checkpoint from a folder that all can read, see VllmPolicy.

        Raises: PolicyError if none does.
        """
        await self._update("update_weights", path, version)

    async def update_adapter(self, path: str, *, version: int | None = None) -> None:
        """Make every server load a LoRA adapter from a folder that all can read, see VllmPolicy.

        Raises: PolicyError if none does.
        """
        await self._update("update_adapter", path, version)

    def episode_started(self, episode: str) -> None:
        """Assign the episode to a server. If no server is left, the episode's first turn fails."""
        if any(not server.reason for server in self._servers):
            self._assign(episode)

    def episode_ended(self, episode: str) -> None:
        """Free the episode's server."""
        self._free(episode)

    async def close(self) -> None:
        """Close every policy."""
        for server in self._servers:
            if server.health is not None:
                server.health.cancel()
        await asyncio.gather(*(server.policy.close() for server in self._servers))

    async def _update(self, method: str, path: str, version: int | None) -> None:
        version = self.version + 1 if version is None else version
        try:
            await self._publish(lambda policy: _method_of(policy, method)(path, version=version))
            self.version = version
        finally:
            self.share()

    async def _publish(self, work: Callable[[Policy], Awaitable[None]]) -> None:
        """Run `work` on every server in use or healthy again. Servers that succeed are in use, the others are out."""

        async def publish(server: _Server) -> None:
            try:
                async with asyncio.timeout(self._deadline_s):
                    await work(server.policy)
            except (PolicyError, TimeoutError) as error:
                self._take_out(server, f"it did not take new weights ({_text(error, self._deadline_s)})")
            else:
                server.reason, server.failures = "", 0

        servers = [server for server in self._servers if not server.reason or server.is_back()]
        if not servers:  # only then wait for health checks
            await asyncio.wait({server.health for server in self._servers if server.health is not None})
            servers = [server for server in self._servers if server.is_back()]
        await asyncio.gather(*map(publish, servers))
        self._least_loaded()  # raises if no server is left

    async def _ask(self, server: _Server, work: Callable[[], Awaitable[T]], episode: str | None = None) -> T:
        server.running += 1
        try:
            async with asyncio.timeout(self._deadline_s):
                answer = await work()
        except ContextFull:
            raise
        except (PolicyError, TimeoutError) as error:
            server.failures += 1
            if isinstance(error, TimeoutError) or server.failures >= FAILURES:
                self._take_out(server, _text(error, self._deadline_s))
            if episode is not None:
                self._free(episode)
            raise PolicyError(f"{server.policy.name}: {_text(error, self._deadline_s)}") from error
        finally:
            server.running -= 1
        server.failures = 0
        return answer

    def _take_out(self, server: _Server, reason: str) -> None:
        server.reason = reason
        for episode in [*server.episodes]:
            self._free(episode)

    def _assign(self, episode: str) -> _Server:
        self._free(episode)
        server = self._server_of[episode] = self._least_loaded()
        server.episodes.add(episode)
        server.policy.episode_started(episode)
        return server

    def _free(self, episode: str) -> None:
        if (server := self._server_of.pop(episode, None)) is not None:
            server.episodes.discard(episode)
            server.policy.episode_ended(episode)

    def _least_loaded(self) -> _Server:
        """Return the least loaded server. Raises: PolicyError if every server is out."""
        servers = [server for server in self._servers if not server.reason]
        if not servers:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self.out.items())
            raise PolicyError(
                f"Every policy server of the pool has failed: {reasons}. Start them again: the next update of the "
                "weights takes them back in."
            )
        return min(servers, key=lambda server: server.load)


def _pool_of(makers: Sequence[Callable[[], Policy]], deadline_s: float) -> PolicyPool:
    return PolicyPool([make() for make in makers], deadline_s=deadline_s)


async def _succeeds(check: Callable[[], Awaitable[None]]) -> bool:
    try:
        async with asyncio.timeout(HEALTH_S):
            await check()
    except (PolicyError, TimeoutError):
        return False
    return True


def _method_of(policy: Policy, name: str) -> Callable[..., Awaitable[None]]:
    method: Any = getattr(policy, name, None)
    if method is None:
        raise PolicyError(f"The weights of {policy.name} cannot be replaced this way, because it has no method {name}.")
    update: Callable[..., Awaitable[None]] = method
    return update


def _text(error: Exception, deadline_s: float) -> str:
    return f"no answer within {deadline_s:g} s" if isinstance(error, TimeoutError) else str(error)
