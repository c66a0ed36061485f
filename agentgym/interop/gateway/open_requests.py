"""The open requests of an episode: each is answered even if its client leaves, but not beyond the episode's end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from agentgym.cluster.served_episodes import ServerRefusal
from agentgym.errors import SandboxExhausted
from agentgym.messages import StopReason

MAX_WAITING = 16
"""The maximum open requests and calls of one episode."""
T = TypeVar("T")


class OpenRequests:
    """The open requests of one episode. Admits new ones until it is over.

    Args:
        over: done when the episode is over.
        end, fail: end the episode; see ProgramLoop.
    Attributes:
        last_at: when the last request came, or was answered, by the clock of the event loop.
    """

    def __init__(
        self, over: asyncio.Future[StopReason], end: Callable[[StopReason], None], fail: Callable[[Exception], None]
    ) -> None:
        self._over, self._end, self._fail = over, end, fail
        self._work: set[asyncio.Task[Any]] = set()
        self.last_at = asyncio.get_running_loop().time()

    @property
    def is_busy(self) -> bool:
        return bool(self._work)

    async def admit(self, work: Coroutine[Any, Any, T]) -> T:
        """Finish a request's work. Raises: ServerRefusal, also for too many requests and once the episode is over."""
        try:
            self.check_open()
            if len(self._work) >= MAX_WAITING:
                waiting = f"{MAX_WAITING} requests of this episode are already open. Wait until one is answered."
                raise ServerRefusal(429, "rate_limit_error", waiting)
        except ServerRefusal:
            work.close()
            raise
        self.last_at = asyncio.get_running_loop().time()
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            raise over_error() from None
        except ServerRefusal:
            raise
        except SandboxExhausted:  # caused by the agent
            self._end(StopReason.ENVIRONMENT)
            raise over_error() from None
        except Exception as error:
            self._fail(error)
            raise ServerRefusal(503, "api_error", "The episode has failed, and will not continue.") from error
        finally:
            self.last_at = asyncio.get_running_loop().time()

    def check_open(self) -> None:
        """Raise ServerRefusal if the episode is over."""
        if self._over.done():
            raise over_error()

    async def close(self) -> None:
        """Cancel the open requests."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)


def over_error() -> ServerRefusal:
    """Return the refusal of a request that comes after the end of its episode."""
    return ServerRefusal(410, "episode_over", "The episode is over.")
