"""Forks the child for the next Python call in advance, when one is likely.

This saves waiting time, not work. A Python call is likely if one followed the last call of the same kind (a
Python call, a command, a call of a session). If it followed soon, the child is forked at once, else after a moment
without calls, so that a sandbox which ends after its call pays nothing. No other call runs while the child waits. A
live session or channel may disturb the child, as it may any concurrent call.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from . import python
from .counted_time import NOT_BEGUN
from .exit_watcher import ExitWatcher
from .jobs import Process, RunningCall, two_captures
from .metering import Meter
from .poller import Poller

PYTHON = "python"  # the kind of a call that a child can serve
SOON_S = 0.5  # calls with a shorter pause than this follow each other closely
QUIET_S = 0.05  # after this time without a call, the agent is thinking, and there is time to fork
KEPT_S = 30.0  # an unused child is killed after this time

Fork = Callable[[tuple[int, int], int], int]


@dataclass
class PreforkedChild:
    """A child that waits for its code on the other end of `code_socket`, and the call that it will serve."""

    call: RunningCall
    code_socket: int
    deadline: float


class Prefork:
    """Holds at most one preforked child."""

    def __init__(self, poller: Poller, exit_watcher: ExitWatcher) -> None:
        self._poller, self._exit_watcher = poller, exit_watcher
        self._child: PreforkedChild | None = None
        self._last_kind, self._last_end = "", 0.0
        self._fork_at: float | None = None
        # By the kind of a call: seconds from its end to the fork, or None if something other than a Python call
        # followed.
        self._delays: dict[str, float | None] = {}

    @property
    def pid(self) -> int:
        """Pid of the preforked child; 0 if there is none."""
        return 0 if self._child is None else self._child.call.process.pid

    def call_begins(self, kind: str) -> None:
        """Record which kind of call follows which. Kill the preforked child if this call is not a Python call."""
        if self._last_kind:
            soon = time.monotonic() - self._last_end < SOON_S
            self._delays[self._last_kind] = None if kind != PYTHON else 0.0 if soon else QUIET_S
        if kind == PYTHON:
            self._delays.setdefault(PYTHON, QUIET_S)
        self._last_kind, self._fork_at = "", None
        if kind != PYTHON:
            self.drop()

    def call_ended(self, kind: str) -> None:
        """Record that a call has ended and no other call runs."""
        self._last_kind, self._last_end = kind, time.monotonic()
        delay_s = self._delays.get(kind, QUIET_S if PYTHON in self._delays else None)
        self._fork_at = None if delay_s is None else self._last_end + delay_s

    def take(self, code: bytes, memory_kills: Callable[[], int], meter: Meter) -> RunningCall | None:
        """Start a Python call in the preforked child.

        Returns: the call, whose number and time limit the caller sets; None if there is no child to run it.
        """
        child = self._child
        if child is None:
            return None
        call = child.call
        call.memory_kills, call.started_before = memory_kills(), meter.started()
        try:
            if len(code) >= python.MAX_INLINE_CODE:
                raise OSError("the code is too long for one message")
            os.write(child.code_socket, b"." + code)  # one message arrives completely or not at all
        except OSError:
            self.drop()
            return None
        os.close(child.code_socket)
        self._child = None
        meter.count_starts(1)
        return call

    def fork_if_due(self, fork: Fork, watch_call: Callable[[RunningCall], None]) -> int:
        """Fork the child, if it is time. Call it while no call runs. Returns: how many were forked."""
        if self._fork_at is None or self._fork_at > time.monotonic():
            return 0
        self._fork_at = None
        return self.fork(fork, watch_call)

    def fork(self, fork: Fork, watch_call: Callable[[RunningCall], None]) -> int:
        """Fork the child now. Returns: how many were forked.

        Args:
            fork: forks the child, given its two output descriptors and the socket to wait on. Returns: its pid.
            watch_call: starts watching the child's outputs and its end.
        """
        try:
            self._child = self._make(fork)
            watch_call(self._child.call)
        except OSError:  # for example, the process limit is reached: the next call forks, or reports it
            return 0
        return 1

    def _make(self, fork: Fork) -> PreforkedChild:
        with contextlib.ExitStack() as cleanup:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            cleanup.callback(ours.close)
            with theirs:
                stdout, stderr = two_captures()
                cleanup.callback(stdout.close)
                cleanup.callback(stderr.close)
                process = Process(fork((stdout.write, stderr.write), theirs.fileno()), self._exit_watcher)
            cleanup.pop_all()
        call = RunningCall(0, 0.0, NOT_BEGUN, stdout, stderr, 0, process, kind=PYTHON)
        return PreforkedChild(call, ours.detach(), time.monotonic() + KEPT_S)

    def forget(self) -> None:
        """Kill the child, and forget what was learned."""
        self._delays.clear()
        self._last_kind, self._fork_at = "", None
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

    def drop_if_stale(self) -> None:
        """Kill the child if it has waited too long."""
        if self._child is not None and self._child.deadline <= time.monotonic():
            self.drop()

    def due_in_s(self) -> float | None:
        """Seconds until a child is to be forked or killed; None if neither is."""
        due = self._fork_at if self._child is None else self._child.deadline
        return None if due is None else max(due - time.monotonic(), 0.0)
