"""Reports the end of a child by a descriptor that then becomes readable.

The descriptor is a pidfd. On a kernel without pidfds (gVisor) it is a pipe, and the guest polls the children itself.
"""

from __future__ import annotations

import errno
import os

_BUSY_S, _IDLE_S = 0.002, 0.05  # polling interval while a call runs, and while only sessions or channels do


class ExitWatcher:
    """Watches the children that have not been waited for yet."""

    def __init__(self) -> None:
        self._pipes: dict[int, int] = {}  # the write end of each process's pipe, by pid

    def handle(self, pid: int) -> int:
        """Return a descriptor that becomes readable when the child ends."""
        try:
            return os.pidfd_open(pid)
        except OSError as error:
            if error.errno != errno.ENOSYS:
                raise
        read, self._pipes[pid] = os.pipe()
        return read

    def forget(self, pid: int) -> None:
        """Stop watching a child that was waited for. Closing its handle is up to the caller."""
        write = self._pipes.pop(pid, None)
        if write is not None:
            os.close(write)

    def poll(self) -> None:
        """Where the kernel has no pidfds, see which children have ended, and make their descriptors readable."""
        for pid, write in list(self._pipes.items()):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                os.write(write, b".")  # closing it would not wake a reader: a forked child may hold the pipe too
                self.forget(pid)

    def limit_timeout(self, longest_s: float | None, *, busy: bool) -> float | None:
        """Return the time in seconds that the guest may wait for events: `longest_s`, or less if it has to poll."""
        if not self._pipes:
            return longest_s
        interval_s = _BUSY_S if busy else _IDLE_S
        return interval_s if longest_s is None else min(longest_s, interval_s)
