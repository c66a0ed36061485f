"""Threads for tools that block: a tool that never returns costs one thread, never the run.

The event loop's own executor is not used: it has few threads, so a few hanging tools would stop all others, and the
interpreter joins them at exit, so one hanging tool would keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

MAX_THREADS = 512
"""Threads of one `ThreadPool`; further work waits until one is free."""
_IDLE_S = 10.0


class ThreadPool:
    """Daemon threads that are started on demand and end after ten idle seconds."""

    def __init__(self, max_threads: int | None = None) -> None:
        """`max_threads`: by default `MAX_THREADS`, read whenever work is submitted."""
        self._max_threads = max_threads
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._alive = 0
        self._idle = 0

    def submit(self, work: Callable[[], None]) -> None:
        """Run `work` in a thread, as soon as one is free. `work` must not raise."""
        if self._pid != os.getpid():
            self._begin()  # a forked process has none of its parent's threads
        most = MAX_THREADS if self._max_threads is None else self._max_threads
        with self._lock:
            self._work.put(work)
            if self._idle:
                self._idle -= 1  # one of the idle threads will take it
                return
            if self._alive >= most:
                return
            self._alive += 1
        threading.Thread(target=self._serve, name="agentgym-tool", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                work = self._work.get_nowait()
            except queue.Empty:
                with self._lock:
                    self._idle += 1
                try:
                    work = self._work.get(timeout=_IDLE_S)
                except queue.Empty:
                    with self._lock:
                        if self._idle:  # else `submit` has just counted on this thread: look for work once more
                            self._idle -= 1
                            self._alive -= 1
                            return
                    continue
            work()
            del work  # else an idle thread would keep the tool's objects alive


_default = ThreadPool()
"""The pool of this process, which `in_thread` uses."""


async def in_thread(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Run a blocking function in a thread and wait for it. Cancelling stops the waiting, not the function.

    Raises: what the function raises; RuntimeError in place of StopIteration and SystemExit, which would end
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
