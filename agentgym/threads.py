"""Threads for tools that block. A tool that never returns must cost one thread, never the run.

The event loop's own executor will not do: it has a handful of threads, so a few hanging tools would stop all
others, and the interpreter joins them at exit, so one hanging tool would keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

MAX_THREADS = 512
"""Beyond it, work waits for a thread."""
_IDLE_S = 10.0

_work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
_lock = threading.Lock()
_alive = 0
_idle = 0


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
            return  # nobody waits any more
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
        except BaseException as raised:  # noqa: BLE001  handed to the one who waits
            error = raised
        if not loop.is_closed():
            try:
                loop.call_soon_threadsafe(settle, value, error)
            except RuntimeError:
                return  # the loop closed in between

    _submit(work)
    return await future


def _submit(work: Callable[[], None]) -> None:
    global _alive, _idle
    with _lock:
        _work.put(work)
        if _idle:
            _idle -= 1  # one of those who wait will take it
            return
        if _alive >= MAX_THREADS:
            return
        _alive += 1
    threading.Thread(target=_serve, name="agentgym-tool", daemon=True).start()


def _serve() -> None:
    global _alive, _idle
    while True:
        try:
            work = _work.get_nowait()
        except queue.Empty:
            with _lock:
                _idle += 1
            try:
                work = _work.get(timeout=_IDLE_S)
            except queue.Empty:
                with _lock:
                    if _idle:  # else somebody has just counted on this thread: take one more turn
                        _idle -= 1
                        _alive -= 1
                        return
                continue
        work()
        del work  # else an idle thread would keep what the tool held
