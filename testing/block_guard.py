"""BlockGuard interrupts code under test that never gives control back, and names it with its line."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self, TypeVar

from agentgym import ConformanceError

T = TypeVar("T")
BLOCKED_S = 60.0
"""How long code may block an import or the event loop, in seconds."""
_TICK_S, _LEAVE_S = 0.25, 5.0
_OURS = (Path(sys.modules["agentgym"].__file__ or "").parent, Path(__file__).parent)
_STANDARD_LIBRARY = Path(os.__file__).parent


class BlockGuard:
    """Interrupt the main thread if it stands still inside the `with` block, in an import or in code on the event loop.

    Ctrl-C then ends the block at once too: asyncio alone waits until the blocked code gives control back. A process
    that cannot be interrupted is ended. Time in which this process is stopped does not count. Does nothing outside the
    main thread.

    Args:
        subject: what is checked, for the error.
        limit_s: seconds that code may block.
    Raises: ConformanceError naming the function or module that blocked, with its line, at the end of the block.
    """

    def __init__(self, subject: str, limit_s: float | None = None) -> None:
        self._subject, self._limit_s = subject, BLOCKED_S if limit_s is None else limit_s
        self._ended, self._blocked_s, self._finding = threading.Event(), 0.0, ""
        self._main: asyncio.Task[object] | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            threading.Thread(target=self._watch, name="block-guard", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._finding and isinstance(error, KeyboardInterrupt):
            raise ConformanceError(self._subject, [self._finding]) from error

    async def watch(self, work: Awaitable[T]) -> T:
        """Return the result of `work`, and notice meanwhile whether the event loop runs."""
        self._main = asyncio.current_task()
        beating = asyncio.ensure_future(self._beat())
        try:
            return await work
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        while True:
            self._blocked_s = 0.0
            await asyncio.sleep(_TICK_S)

    def _watch(self) -> None:
        stopping_s = 0.0
        while not self._ended.wait(_TICK_S):
            self._blocked_s += _TICK_S
            if self._blocked_s >= self._limit_s and not self._finding:
                self._finding = _describe(self._limit_s)
            stopped = self._main is not None and self._main.cancelling() and self._blocked_s > 2 * _TICK_S
            if not self._finding and not stopped:
                stopping_s = 0.0
                continue
            if stopping_s < 2 * _TICK_S:  # at a first Ctrl-C asyncio only cancels its main task
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            elif stopping_s > _LEAVE_S:
                os.write(2, f"\n{f'Error: {self._finding}' if self._finding else 'Stopped.'}\n".encode())
                os._exit(1 if self._finding else 128 + signal.SIGINT)
            stopping_s += _TICK_S


def _describe(limit_s: float) -> str:
    """Describe where the main thread blocks."""
    frames = list(_frames_under_test())
    if not frames:
        return f"Something blocked for {limit_s:g} s, outside of the code that is checked."
    function = [frame for frame in frames if frame.f_code.co_name != "<module>"]
    frame = function[-1] if function else frames[0]
    position = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
    if not function:
        return (
            f"The import of {frame.f_globals.get('__name__')} did not end in {limit_s:g} s: it waits at {position}. A "
            "module should only define things: move what takes long into `reset` or another function."
        )
    return (
        f"{frame.f_code.co_qualname} did not return in {limit_s:g} s: it waits at {position}, and so do all episodes. "
        "Await what takes long, and give it a time limit; a tool without `async` runs in a thread until its timeout_s."
    )


def _frames_under_test() -> Iterator[FrameType]:
    """Yield the innermost frames of the main thread that belong to the code under test, the innermost first."""
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
    inside = False
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        ours = any(file.is_relative_to(folder) for folder in _OURS)
        library = not file.is_absolute() or (
            file.is_relative_to(_STANDARD_LIBRARY) and "site-packages" not in file.parts
        )
        if ours and inside:
            return
        if not ours and not library:
            inside = True
            yield frame
        frame = frame.f_back


async def in_time(work: Awaitable[T], doing: str, limit_s: float, fail: Callable[[str], None]) -> T:
    """Return the result of `work`. After `limit_s` seconds, call `fail` with a finding; `fail` must raise."""
    try:
        async with asyncio.timeout(limit_s) as limit:
            return await work
    except TimeoutError:
        if limit.expired():
            fail(f"{doing} did not return in {limit_s:g} s. Give what it waits for a time limit of its own.")
        raise
