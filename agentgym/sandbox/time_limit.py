"""Time limits of the host: on tools, on requests to a process in a sandbox, on episodes.

They count as guest/counted_time.py says: code that is ready to run uses them up by processor seconds, everything else
by wall time, and time in which this process was stopped or its event loop blocked does not count. Time for which a
sandbox waits for a processor is not counted by the limits around the call either.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Self, TypeVar

from typing_extensions import override

from agentgym.errors import HostOverloaded, SandboxError
from agentgym.sandbox.contract import ExecResult
from agentgym.sandbox.guest.counted_time import CountedTime
from agentgym.sandbox.guest.readiness import thread_is_ready

T = TypeVar("T")

_ROUNDING_S = 0.01
_CANCELLED_S = 1.0  # in which the cancellation of an outer task reaches the code inside


class TaskTimer:
    """Cancels the asyncio task that called `begin` when its time is up, and turns the cancellation into an error.

    Attributes:
        expired: whether the latest use ran out of time.
    """

    def __init__(self) -> None:
        self.expired = False
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Limit the time of the current task. Raises: RuntimeError if no task is running."""
        self._task = task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("A time limit cancels a task, and this code runs in none.")
        self._cancelling, self.expired = task.cancelling(), False

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def expire(self) -> None:
        """Cancel the task."""
        self.expired = True
        if self._task is not None:
            self._task.cancel()

    def end(self, error: BaseException | None) -> None:
        """End the limit. Raises: TimeoutError in place of the cancellation `error`, if the time was up."""
        task, self._task = self._task, None
        if not self.expired or task is None:
            return
        if task.uncancel() <= self._cancelling and type(error) is asyncio.CancelledError:
            raise self.reason() from error

    def reason(self) -> Exception:
        """Return the error that says that the time is up."""
        return TimeoutError()


class OuterLimit(TaskTimer, ABC):
    """A limit on code that calls sandboxes. The calls are limited to what is left, and the limit waits for them.

    Attributes:
        calls: how many calls to sandboxes are under way.
    """

    _outer: Token[tuple[OuterLimit, ...]]

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    @abstractmethod
    def left_s(self) -> float:
        """Return the seconds that are left."""

    @abstractmethod
    def call_ended(self, waited_s: float) -> None:
        """Note the end of a call to a sandbox, which waited for a processor for `waited_s`: that does not count."""

    @override
    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        super().begin(loop)
        self._outer = active_limits.set((*active_limits.get(), self))

    @override
    def end(self, error: BaseException | None) -> None:
        active_limits.reset(self._outer)
        super().end(error)


active_limits: ContextVar[tuple[OuterLimit, ...]] = ContextVar("agentgym_time_limits", default=())
"""The limits around the code that is running."""


class TimeLimit(OuterLimit):
    """A time limit on asynchronous code, for use in a `with` block. It may be entered again: what is used up stays so.

    Raises, at the end of the block: TimeoutError if the code has used its time up; HostOverloaded if it was kept
        from running for many times as long.
    """

    _loop: asyncio.AbstractEventLoop

    def __init__(self, limit_s: float) -> None:
        super().__init__()
        self._time = CountedTime(limit_s, 0.0)  # by the loop's clock, once it is entered
        self._timer: asyncio.Handle | None = None

    def __enter__(self) -> Self:
        self._loop = loop = asyncio.get_running_loop()
        self.begin(loop)
        self._time.resume(loop.time())
        self._timer = loop.call_at(self._time.due, self._look)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._time.pause(self._loop.time())
        self.end(error)

    def _look(self) -> None:
        self._count(is_ready=False)

    def _count(self, *, is_ready: bool, cpu_s: float = 0.0) -> None:
        if self._timer is None:
            return  # it has ended
        now = self._loop.time()
        self._time.look(now, is_ready=is_ready, cpu_s=cpu_s)
        if not self._time.is_over:
            self._timer = self._loop.call_at(self._time.due, self._look)
        elif not self.calls:
            self.expire()

    @property
    def waited_s(self) -> float:
        """Wall seconds inside the block, up to the last look or the block's end, that do not count."""
        return max(self._time.age_s - self._time.counted_s, 0.0)

    @override
    def reason(self) -> Exception:
        if self._time.is_used_up or not self._time.is_over:  # used up, or ended by a call inside
            return TimeoutError()
        return overloaded(self._time.age_s, self._time.counted_s, self._time.limit_s)

    @override
    def left_s(self) -> float:
        return self._time.limit_s - self._time.counted_by(self._loop.time())

    @override
    def call_ended(self, waited_s: float) -> None:
        self._time.counted_s -= waited_s
        if self._time.is_over and not self.calls and not self.expired and self._timer is not None:
            self._timer = self._loop.call_soon(self._look)


class ThreadLimit(TimeLimit):
    """A time limit on a function in a thread, whose processor seconds and readiness decide."""

    _thread: int | None = None  # the kernel's id; 0 once the function has returned
    _clock: int
    _before_s = _used_s = 0.0

    def run(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call a function in this thread. Until then the call waits for a thread, and its time does not run."""
        self._clock, self._before_s = time.pthread_getcpuclockid(threading.get_ident()), time.thread_time()
        self._thread = threading.get_native_id()
        try:
            return function(*args, **kwargs)
        finally:
            self._thread = 0

    @override
    def _look(self) -> None:
        thread = self._thread
        if thread is None:
            self._count(is_ready=True, cpu_s=0.0)
        elif not thread or not thread_is_ready(os.getpid(), thread):
            self._count(is_ready=False)
        else:
            with contextlib.suppress(OSError):  # the thread may end meanwhile
                self._used_s = time.clock_gettime(self._clock) - self._before_s
            self._count(is_ready=True, cpu_s=self._used_s)


class ChannelLimit(TimeLimit):
    """A time limit on a request to a process in a sandbox, whose guest is asked how the process is.

    Args:
        ask: returns whether the process runs or waits for a processor, and the processor seconds that it has used.
    """

    _asking: asyncio.Task[None] | None = None

    def __init__(self, limit_s: float, ask: Callable[[], Awaitable[tuple[bool, float]]]) -> None:
        super().__init__(limit_s)
        self._ask = ask

    @override
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._asking is not None:
            self._asking.cancel()
        super().__exit__(kind, error, traceback)

    @override
    def _look(self) -> None:
        self._asking = self._loop.create_task(self._ask_and_count())

    async def _ask_and_count(self) -> None:
        with contextlib.suppress(SandboxError):  # then the request fails too
            is_ready, cpu_s = await self._ask()
            self._count(is_ready=is_ready, cpu_s=cpu_s)


class SandboxCall:
    """One call to a sandbox inside time limits. It may take no longer than is left of the nearest.

    Attributes:
        timeout_s: the limit to pass to the sandbox.
    """

    def __init__(self, timeout_s: float) -> None:
        """Begin. The limits wait for `end`."""
        self.timeout_s = timeout_s
        self._limits = [limit for limit in active_limits.get() if limit.is_running]
        self._nearest: OuterLimit | None = None
        for limit in self._limits:
            limit.calls += 1
            if (left_s := max(limit.left_s(), 0.001)) < self.timeout_s:
                self.timeout_s, self._nearest = left_s, limit

    def end(self, waited_s: float) -> None:
        """Note that the call has ended. `waited_s`: how long it waited for a processor."""
        for limit in self._limits:
            limit.calls -= 1
            limit.call_ended(waited_s)

    async def time_is_up(self) -> None:
        """End the code inside the limit around this call that ran out, if it was not the call's own limit."""
        if self._nearest is not None and self._nearest.is_running and not self._nearest.expired:
            self._nearest.expire()
            await asyncio.sleep(_CANCELLED_S)


@contextlib.contextmanager
def uncounted() -> Iterator[None]:
    """Let no limit count the time of the block, which is our own work: making a sandbox, moving a file.

    The work needs a time limit of its own, whose end is a failure of the infrastructure.
    """
    call, began = SandboxCall(math.inf), time.monotonic()
    try:
        yield
    finally:
        call.end(time.monotonic() - began)


def check_not_starved(result: ExecResult, timeout_s: float) -> None:
    """Raise HostOverloaded if a call was ended before its own limit was used up."""
    counted_s = result.duration_s - result.usage.waited_s
    if result.timed_out and result.usage.waited_s and counted_s < timeout_s - _ROUNDING_S:
        raise overloaded(result.duration_s, counted_s, timeout_s)


def overloaded(wall_s: float, counted_s: float, limit_s: float) -> HostOverloaded:
    """Return the error for code that was kept from running."""
    return HostOverloaded(
        f"In {wall_s:.0f} s of wall time the machine let code run for {counted_s:.1f} s only, where its limit is "
        f"{limit_s:g} s: it has too much to do, or was stopped. Run fewer episodes at once."
    )
