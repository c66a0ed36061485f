"""Reads the kernel's counters for the whole sandbox: bytes written, processes and threads started."""

from __future__ import annotations

import os

from . import identity, kernel, surroundings

_FIRST_REUSED_PID = 300  # the kernel reuses no pids below this one


class Meter:
    """Counts since the guest started. Create it before any agent code runs."""

    def __init__(self) -> None:
        self._sandbox_io = self._guest_io = self._loadavg = -1
        self._wraps, self._last_pid = 0, os.getpid()
        # Only root may open the /proc files of an undumpable process; an open descriptor stays readable.
        kernel.set_dumpable(True)
        try:
            self._sandbox_io = os.open("/proc/self/io", os.O_RDONLY)
            self._guest_io = os.open("/proc/thread-self/io", os.O_RDONLY)
        except OSError:  # not every kernel is built with this file
            self._sandbox_io = -1
        finally:
            kernel.set_dumpable(False)
        try:
            if surroundings.shares_pids:
                raise OSError("the kernel counts the processes of others too")
            self._loadavg = os.open("/proc/loadavg", os.O_RDONLY)
            self._pids_per_wrap = int(kernel.read_from("/proc/sys/kernel/pid_max")) - _FIRST_REUSED_PID
        except (OSError, ValueError):
            self._loadavg = -1
        self._first = self._written = 0
        self._first, self._written = self.started(), self.written()

    def count_starts(self, more: int) -> None:
        """Add `more` to the number of started processes; negative to leave out the guest's own processes."""
        self._first -= more

    def written(self) -> int:
        """Return the bytes passed to write calls by processes that have ended and were waited for; 0 if unknown.

        Writes to files, pipes and sockets count. The guest's own writes for the host are left out.
        """
        if self._sandbox_io < 0:
            return 0
        return _bytes_written(self._sandbox_io) - _bytes_written(self._guest_io) - self._written

    def started(self) -> int:
        """Return the number of processes and threads started; 0 if unknown. Misses pids that wrap around twice between
        calls.
        """
        if self._loadavg < 0:
            return 0
        text = os.pread(self._loadavg, 256, 0)
        newest = int(text[text.rindex(b" ") :])  # of this pid namespace
        if newest < self._last_pid:
            self._wraps += 1
        self._last_pid = newest
        return self._wraps * self._pids_per_wrap + newest - self._first


def number_after(word: bytes, text: bytes) -> int:
    """Return the number that follows `word` on its line; 0 if the word is missing. The word must occur once."""
    start = text.find(word)
    return 0 if start < 0 else int(text[start + len(word) : text.index(b"\n", start)])


def written_by(pid: int) -> int:
    """Return the bytes that a living process and its waited children passed to write calls; 0 if unreadable."""
    try:
        with identity.as_agent():  # the process's own user may read this
            descriptor = os.open(f"/proc/{pid}/io", os.O_RDONLY)
            try:
                return _bytes_written(descriptor)
            finally:
                os.close(descriptor)
    except OSError:
        return 0


def peak_kib(pid: int) -> int:
    """Return the most memory that a living process ever held, in KiB; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def _bytes_written(descriptor: int) -> int:
    return number_after(b"wchar:", os.pread(descriptor, 512, 0))
