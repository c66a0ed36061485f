"""How a command ends early: signals end it like Ctrl-C, and a full disk or a missing permission is named."""

from __future__ import annotations

import atexit
import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@dataclass
class StopSignal:
    """The event that ended a command: Ctrl-C, or a signal that has the same effect."""

    received: signal.Signals = signal.SIGINT

    @property
    def exit_code(self) -> int:
        """The exit code that shells expect after a signal: 130, 143 or 129."""
        return 128 + self.received

    @property
    def cause(self) -> str:
        return "" if self.received == signal.SIGINT else f" by {self.received.name}"


@contextmanager
def interrupted_by_signals() -> Iterator[StopSignal]:
    """Raise KeyboardInterrupt inside the block when one of SIGNALS arrives, as for Ctrl-C.

    Leave signals alone that are ignored or already have a handler. Do nothing outside the main thread.
    """
    stop, process = StopSignal(), os.getpid()

    def interrupt(number: int, _: FrameType | None) -> None:
        if os.getpid() != process:  # this is a forked process, which has nothing to close
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        stop.received = signal.Signals(number)
        if callable(signal.getsignal(signal.SIGINT)):
            signal.raise_signal(signal.SIGINT)
        else:  # a shell makes its background jobs ignore Ctrl-C
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    taken = [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, interrupt)
    try:
        yield stop
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """End the process without waiting for its threads if a signal ended the command.

    A forward pass in a thread cannot be interrupted, and the interpreter would wait minutes for it.
    """
    try:
        yield
    except KeyboardInterrupt:  # while the command line is imported
        os.write(2, b"\nStopped.\n")
        os._exit(128 + signal.SIGINT)
    except SystemExit as end:
        if not isinstance(end.code, int) or end.code - 128 not in (signal.SIGINT, *SIGNALS):
            raise
        getattr(atexit, "_run_exitfuncs")()  # noqa: B009
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it any more
                stream.flush()
        os._exit(end.code)


_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL_TEXT = re.compile(r"No space left on device|Disk quota exceeded|database or disk is full", re.IGNORECASE)
_TORCH_TEXT = re.compile(r"PytorchStreamWriter failed|inline_container\.cc.*unexpected pos", re.DOTALL)
"""Torch's messages for a file that could not be written completely, which do not give the reason."""


def not_writable(error: BaseException) -> str | None:
    """Return the message for an error of a full disk or missing permission; None for other errors."""
    for cause in _chain(error):
        number, file = getattr(cause, "errno", None), getattr(cause, "filename", None)
        path = f" {file}" if file else ""
        if number in _FULL or _FULL_TEXT.search(str(cause)):
            return (
                f"Cannot write{path}: no space is left on the disk. Make room, and run the command again (of a "
                "training with --resume): what is complete was kept."
            )
        if isinstance(cause, OSError) and number in _REFUSED and file:
            return f"Cannot open{path}: {cause.strerror}. Name another place, or get the right to use it."
        if _TORCH_TEXT.search(str(cause)):
            return (
                "Cannot write a checkpoint completely: the disk may be full. Make room, and run the command again "
                "with --resume: what is complete was kept."
            )
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what caused it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
