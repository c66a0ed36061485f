"""Knowing when a child ends: a descriptor that becomes readable then.

That is a pidfd. A kernel without them (gVisor) gets a pipe for each child instead, and the guest looks itself.
"""

from __future__ import annotations

import errno
import os

_BUSY_S, _IDLE_S = 0.002, 0.05  # how often to look while a call runs, and while there are sessions or channels only


class ExitWatcher:
    """The ends of children that nobody has waited for yet."""

    def __init__(self) -> None:
        self._pipes: dict[int, int] = {}  # pid: the write end of the pipe that will say so

    def handle(self, pid: int) -> int:
        """A descriptor that becomes readable when the child ends."""
        try:
            return os.pidfd_open(pid)
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
        read, self._pipes[pid] = os.pipe()
        return read

    def forget(self, pid: int) -> None:
        """The child was waited for; its handle is the caller's to close."""
        write = self._pipes.pop(pid, None)
        if write is not None:
            os.close(write)

    def poll(self) -> None:
        """Tell of children that have ended, where the kernel does not."""
        for pid, write in list(self._pipes.items()):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                os.write(write, b".")  # a child of ours may hold the pipe too: closing it would tell nobody
                self.forget(pid)

    def limit_timeout(self, longest_s: float | None, *, busy: bool) -> float | None:
        """How long the guest may wait for events before it has to look."""
        if not self._pipes:
            return longest_s
        soon = _BUSY_S if busy else _IDLE_S
        return soon if longest_s is None else min(longest_s, soon)
