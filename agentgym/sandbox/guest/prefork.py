"""Forks the child for the next Python call in advance, when Python calls follow each other closely.

This saves the call's waiting time, not work. So no child is forked in advance when calls are rare, and one that is not
used soon is killed. It lives only while no agent code runs, so nothing can signal it, trace it or change its limits
before its call begins.
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

SOON_S = 0.5  # calls closer than this follow each other closely
_NEVER = float("-inf")

Fork = Callable[[tuple[int, int], int], int]


@dataclass
class PreforkedChild:
    """A child that waits for its code on the other end of `code_socket`, and the call that it will serve."""

    call: RunningCall
    code_socket: int
    deadline: float


class Prefork:
    """Holds at most one preforked child."""

    def __init__(self, poller: Poller, exit_watcher: ExitWatcher, meter: Meter) -> None:
        self._poller, self._exit_watcher, self._meter = poller, exit_watcher, meter
        self._child: PreforkedChild | None = None
        self._last_end, self._calls_are_close = _NEVER, False

    @property
    def pid(self) -> int:
        """Pid of the preforked child; 0 if there is none."""
        return 0 if self._child is None else self._child.call.process.pid

    def take(self, code: bytes) -> RunningCall | None:
        """Start a Python call in the preforked child.

        Returns: the call, still without its number and deadline; None if there is no child and a fork is needed.
        """
        self._calls_are_close = time.monotonic() - self._last_end < SOON_S
        child = self._child
        if child is None:
            return None
        try:
            if len(code) >= python.MAX_INLINE_CODE:
                raise OSError("the code is too long for one message")
            os.write(child.code_socket, b"." + code)  # one message arrives completely or not at all
        except OSError:
            self.drop()
            return None
        os.close(child.code_socket)
        self._child = None
        self._meter.count_starts(1)
        return child.call

    def call_ended(self, memory_kills: int, fork: Fork, watch_call: Callable[[RunningCall], None]) -> None:
        """A Python call has ended and nothing else runs: fork the next child, if another call is likely soon.

        Args:
            memory_kills: how many there were so far.
            fork: forks the child, given its two output descriptors and the socket to wait on. Returns: its pid.
            watch_call: starts watching the child's outputs and its end.
        """
        self._last_end = time.monotonic()
        if self._calls_are_close:
            with contextlib.suppress(OSError):  # e.g. the process limit is reached: the next call forks, or reports it
                self._child = self._make(memory_kills, fork)
                watch_call(self._child.call)

    def _make(self, memory_kills: int, fork: Fork) -> PreforkedChild:
        started = self._meter.started()  # nothing else can be started while the child waits
        with contextlib.ExitStack() as cleanup:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            cleanup.callback(ours.close)
            with theirs:
                stdout = Capture()
                cleanup.callback(stdout.close)
                stderr = Capture()
                cleanup.callback(stderr.close)
                process = Process(fork((stdout.write, stderr.write), theirs.fileno()), self._exit_watcher)
            cleanup.pop_all()
        self._meter.count_starts(-1)
        call = RunningCall(0, 0.0, 0.0, stdout, stderr, memory_kills, process, python=True, started_before=started)
        return PreforkedChild(call, ours.detach(), self._last_end + SOON_S)

    def forget(self) -> None:
        """Kill the child, because other agent code is about to run and could interfere with it."""
        self._last_end = _NEVER
        self.drop()

    def drop(self) -> None:
        """Kill the preforked child, if there is one."""
        child, self._child = self._child, None
        if child is None:
            return
        call = child.call
        for descriptor in (call.stdout.read, call.stderr.read, call.process.handle):
            self._poller.remove(descriptor)
        call.process.kill()
        call.process.wait()
        os.close(child.code_socket)
        call.stdout.close()
        call.stderr.close()

    def expires_in_s(self) -> float | None:
        """Seconds until the child is killed unused; None if there is none."""
        return None if self._child is None else max(self._child.deadline - time.monotonic(), 0.0)
