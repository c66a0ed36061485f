"""The host's time limits on tools, on requests to a process in a sandbox, and on episodes.

They count by the rule of guest/counted_time.py: processor seconds for code that is ready to run, wall time for all
else. Time during which this process was stopped or its event loop blocked does not count, and neither does time for
which a sandbox waited for a processor during a call inside the limit.
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
from contextvars import Context, ContextVar, Token
from types import TracebackType
from typing import Any, Self, TypeVar

from typing_extensions import override

from agentgym.errors import HostOverloaded, SandboxError
from agentgym.sandbox.contract import ExecResult
from agentgym.sandbox.guest.counted_time import CountedTime
from agentgym.sandbox.guest.readiness import thread_is_ready

T = TypeVar("T")

_ROUNDING_S = 0.01
_CANCELLED_S = 1.0  # how long an outer task's cancellation may take to reach the code inside


class TaskTimer:
    """When time is up, cancels the asyncio task that called `begin`, and turns the cancellation into an error.

    Attributes:
        expired: whether the latest use ran out of time.
    """

    expired = False
    _task: asyncio.Task[object] | None = None
    _cancelling = 0

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
    """A time limit on code that calls sandboxes. Each call gets the time that is left, and the limit waits for the
    call.

    Attributes:
        calls: how many calls to sandboxes are under way.
    """

    calls = 0
    _outer: Token[tuple[OuterLimit, ...]]

    @abstractmethod
    def left_s(self) -> float:
        """Return the seconds that are left."""

    @abstractmethod
    def call_ended(self, waited_s: float) -> None:
        """Record the end of a sandbox call. The `waited_s` seconds that it waited for a processor do not count."""

    @override
    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        super().begin(loop)
        self._outer = active_limits.set((*active_limits.get(), self))

    @override
    def end(self, error: BaseException | None) -> None:
        active_limits.reset(self._outer)
        super().end(error)


active_limits: ContextVar[tuple[OuterLimit, ...]] = ContextVar("agentgym_time_limits", default=())
"""The limits that enclose the running code."""


class TimeLimit(OuterLimit):
    """A time limit on asynchronous code, for use in a `with` block. If the block is entered again, the count continues.

    Raises, at the end of the block: TimeoutError if the code has used its time up; HostOverloaded if the machine kept
        it from running for many times the limit.
    """

    _loop: asyncio.AbstractEventLoop
    _timer: asyncio.Handle | None = None

    def __init__(self, limit_s: float) -> None:
        self._time = CountedTime(limit_s, None)  # on the event loop's clock

    def __enter__(self) -> Self:
        self._loop = loop = asyncio.get_running_loop()
        self.begin(loop)
        self._time.resume(loop.time())
        self._set_timer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._time.pause(self._loop.time())
        self.end(error)

    def _set_timer(self) -> None:
        # A cancelled timer stays with the event loop for a while, with its context. A copy would hold this limit.
        self._timer = self._loop.call_at(self._time.due, self._look, context=Context())

    def _look(self) -> None:
        self._count(is_ready=False)

    def _count(self, *, is_ready: bool, cpu_s: float = 0.0) -> None:
        if self._timer is None:
            return  # it has ended
        now = self._loop.time()
        self._time.look(now, is_ready=is_ready, cpu_s=cpu_s)
        if not self._time.is_over:
            self._set_timer()
        elif not self.calls:
            self.expire()

    @property
    def waited_s(self) -> float:
        """Wall seconds inside the block that do not count, up to the last check or the block's end."""
        return max(self._time.age_s - self._time.counted_s, 0.0)

    @property
    def counted_s(self) -> float:
        """Seconds inside the block that count, up to the last check or the block's end."""
        return self._time.counted_s

    @override
    def reason(self) -> Exception:
        if self._time.is_used_up or not self._time.is_over:  # the time is used up, or a call inside the block ended it
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
    """A time limit on a function in a thread. It counts processor seconds while the thread can run, else wall time."""

    _thread: int | None = None  # the kernel's id; 0 once the function has returned
    _clock: int
    _before_s = _used_s = 0.0

    def run(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call a function in this thread. Waiting for a free thread before this does not count."""
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
    """A time limit on a request to a process in a sandbox. The guest reports whether the process runs.

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
    """One sandbox call inside time limits. It gets at most the time left in the limit that ends first.

    Attributes:
        timeout_s: the limit to pass to the sandbox.
    """

    def __init__(self, timeout_s: float) -> None:
        """Begin the call. The limits around it wait for `end`."""
        self.timeout_s, self._began = timeout_s, time.monotonic()
        self._limits = [limit for limit in active_limits.get() if limit.is_running]
        self._nearest: OuterLimit | None = None
        for limit in self._limits:
            limit.calls += 1
            if (left_s := max(limit.left_s(), 0.001)) < self.timeout_s:
                self.timeout_s, self._nearest = left_s, limit

    def end(self, waited_s: float) -> None:
        """Record that the call has ended. `waited_s`: how long it waited for a processor."""
        for limit in self._limits:
            limit.calls -= 1
            limit.call_ended(waited_s)

    def end_elsewhere(self, counted_s: float) -> float:
        """Record the end of a call to another host, on which `counted_s` seconds counted: the rest is the network's,
        or that of a host that was stopped or has too much to do. Returns: the rest.
        """
        rest_s = max(time.monotonic() - self._began - counted_s, 0.0)
        self.end(rest_s)
        return rest_s

    async def time_is_up(self) -> None:
        """End the code inside an outer limit, if that limit and not the call's own has run out."""
        if self._nearest is not None and self._nearest.is_running and not self._nearest.expired:
            self._nearest.expire()
            await asyncio.sleep(_CANCELLED_S)


@contextlib.contextmanager
def uncounted() -> Iterator[None]:
    """Let no limit count the time of the block. Use it for our own work, such as creating a sandbox or moving a file.

    The work needs a separate time limit; running into it is a failure of the infrastructure.
    """
    call = SandboxCall(math.inf)
    try:
        yield
    finally:
        call.end_elsewhere(0.0)


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
