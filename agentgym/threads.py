"""Threads for blocking tools: a tool that never returns costs one thread, never the run.

The event loop's own executor is not used. It has few threads, so a few hanging tools would block all others, and the
interpreter joins its threads at exit, so one hanging tool would keep the process alive.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

MAX_THREADS = 512
"""Threads of one `ThreadPool`; further work waits until one is free."""
_IDLE_S = 10.0


class ThreadPool:
    """Daemon threads that start on demand, and end after ten idle seconds."""

    def __init__(self, max_threads: int | None = None) -> None:
        """Start no thread yet. `max_threads` defaults to `MAX_THREADS`, which is read whenever work is submitted."""
        self._max_threads = max_threads
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._work: deque[Callable[[], None]] = deque()
        self._alive = 0
        self._free = 0  # threads that wait for work, or are starting

    def submit(self, work: Callable[[], None]) -> None:
        """Run `work` in a thread, as soon as one is free. `work` must not raise."""
        if self._pid != os.getpid():
            self._begin()  # a forked process has none of its parent's threads
        most = MAX_THREADS if self._max_threads is None else self._max_threads
        with self._changed:
            self._work.append(work)
            if len(self._work) <= self._free or self._alive >= most:
                self._changed.notify()
                return
            self._alive += 1
            self._free += 1
        threading.Thread(target=self._serve, name="agentgym-tool", daemon=True).start()

    def _serve(self) -> None:
        while (work := self._next()) is not None:
            work()
            del work  # otherwise an idle thread would keep the tool's objects alive
            with self._changed:
                self._free += 1

    def _next(self) -> Callable[[], None] | None:
        """Wait for work and return it. After ten idle seconds, return None and stop counting this thread as alive."""
        with self._changed:
            if self._changed.wait_for(lambda: self._work, _IDLE_S):
                self._free -= 1
                return self._work.popleft()
            self._free -= 1
            self._alive -= 1
            return None


_default = ThreadPool()
"""The pool of this process, which `in_thread` uses."""


async def in_thread(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Run a blocking function in a thread and await its result. Cancelling stops the waiting, not the function.

    Raises: the function's own errors; RuntimeError instead of StopIteration and SystemExit, which would end
        more than the tool.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return  # the caller was cancelled
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = context.run(function, *args, **kwargs)
        except (StopIteration, SystemExit) as raised:
            error = RuntimeError(f"{function.__qualname__} raised {raised!r}")
            error.__cause__ = raised
        except BaseException as raised:  # noqa: BLE001  raised again in the caller
            error = raised
        if not loop.is_closed():
            try:
                loop.call_soon_threadsafe(settle, value, error)
            except RuntimeError:
                return  # the loop was closed in the meantime

    _default.submit(work)
    return await future
