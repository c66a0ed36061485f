"""Make SIGTERM and SIGHUP end a command like Ctrl-C: episodes are closed, and the command says how to resume."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
