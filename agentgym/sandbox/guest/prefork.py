"""A fork made ahead of its call: where Python calls follow each other closely, the next one need not wait for a fork.

It saves no work, only waiting, so that none is made where calls are rare, and one that nobody needs soon ends. It lives
only while nothing of the agent's runs: nobody can signal it, trace it or change its limits before its call begins.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from . import python
from .exit_watcher import ExitWatcher
from .jobs import Capture, Process, RunningCall
from .metering import Meter
from .poller import Poller

SOON_S = 0.5  # between two calls that follow each other closely
_NEVER = float("-inf")

Fork = Callable[[tuple[int, int], int], int]


@dataclass
class PreforkedChild:
    """A child that waits for its code on the other end of `told`, and the call that it will serve."""

    call: RunningCall
    told: int
    until: float


class Prefork:
    """At most one child that waits."""

    def __init__(self, poller: Poller, exit_watcher: ExitWatcher, meter: Meter) -> None:
        self._poller, self._exit_watcher, self._meter = poller, exit_watcher, meter
        self._waiting: PreforkedChild | None = None
        self._ended, self._close_together = _NEVER, False

    @property
    def pid(self) -> int:
        """Of the child that waits; 0 if none does."""
        return 0 if self._waiting is None else self._waiting.call.process.pid

    def take(self, code: bytes) -> RunningCall | None:
        """A Python call begins, alone. Returns: it, to be given its number and its time; None if a fork is needed."""
        self._close_together = time.monotonic() - self._ended < SOON_S
        waiting = self._waiting
        if waiting is None:
            return None
        try:
            if len(code) >= python.MAX_INLINE_CODE:
                raise OSError("it is too long")
            os.write(waiting.told, b"." + code)  # one message: whole, or not at all
        except OSError:
            self.drop()
            return None
        os.close(waiting.told)
        self._waiting = None
        self._meter.count_starts(1)
        return waiting.call

    def call_ended(self, memory_kills: int, fork: Fork, follow: Callable[[RunningCall], None]) -> None:
        """A Python call is over, and nothing else runs: make the next child, if another call is likely soon.

        Args:
            memory_kills: so far.
            fork: makes it, given its two outputs and the socket to wait on. Returns: its pid.
            follow: has its outputs and its end watched.
        """
        self._ended = time.monotonic()
        if self._close_together:
            with contextlib.suppress(OSError):  # no room for it: then the next call forks, or says so
                self._waiting = self._make(memory_kills, fork)
                follow(self._waiting.call)

    def _make(self, memory_kills: int, fork: Fork) -> PreforkedChild:
        started = self._meter.started()  # nothing that is counted can happen while it waits
        with contextlib.ExitStack() as undone:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            undone.callback(ours.close)
            with theirs:
                stdout = Capture()
                undone.callback(stdout.close)
                stderr = Capture()
                undone.callback(stderr.close)
                process = Process(fork((stdout.write, stderr.write), theirs.fileno()), self._exit_watcher)
            undone.pop_all()
        self._meter.count_starts(-1)
        call = RunningCall(0, 0.0, 0.0, stdout, stderr, memory_kills, process, python=True, started_before=started)
        return PreforkedChild(call, ours.detach(), self._ended + SOON_S)

    def forget(self) -> None:
        """Something else of the agent's is about to run, which might do to the child what it likes."""
        self._ended = _NEVER
        self.drop()

    def drop(self) -> None:
        """End the child that waits."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        call = waiting.call
        for descriptor in (call.stdout.read, call.stderr.read, call.process.handle):
            self._poller.remove(descriptor)
        call.process.kill()
        call.process.wait()
        os.close(waiting.told)
        call.stdout.close()
        call.stderr.close()

    def expires_in_s(self) -> float | None:
        """Seconds until the child that waits has waited long enough; None if none does."""
        return None if self._waiting is None else max(self._waiting.until - time.monotonic(), 0.0)
