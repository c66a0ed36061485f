"""Lets SIGTERM and SIGHUP end a command as Ctrl-C does: episodes are closed, and the command says how to go on."""

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
    """What ended a command: Ctrl-C, or the signal that stands for it."""

    received: signal.Signals = signal.SIGINT

    @property
    def exit_code(self) -> int:
        """Exit code that shells expect of a program that a signal ended: 130, 143 or 129."""
        return 128 + self.received

    @property
    def cause(self) -> str:
        return "" if self.received == signal.SIGINT else f" by {self.received.name}"


@contextmanager
def interrupted_by_signals() -> Iterator[StopSignal]:
    """Raise KeyboardInterrupt inside the block when one of SIGNALS arrives, as for Ctrl-C.

    A signal that has a handler already, or is ignored, is left alone. Does nothing outside the main thread.
    """
    stop, process = StopSignal(), os.getpid()

    def interrupt(number: int, _: FrameType | None) -> None:
        if os.getpid() != process:  # a fork, which has nothing to close
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        stop.received = signal.Signals(number)
        if callable(signal.getsignal(signal.SIGINT)):
            signal.raise_signal(signal.SIGINT)
        else:  # a shell lets its background jobs ignore Ctrl-C
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
