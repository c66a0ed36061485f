"""What the kernel counts for everything in a sandbox together: bytes written, processes and threads started."""

from __future__ import annotations

import os

from . import identity, kernel

_FIRST_PID_OF_A_LAP = 300  # pids below it are not given out a second time


class Meter:
    """Counts since the guest began, or began anew. Made before any agent code runs."""

    def __init__(self) -> None:
        self._everybody = self._guest = self._newest = -1
        self._laps, self._last = 0, os.getpid()
        # What the kernel says about an undumpable process is for root to open; once open, it is ours to read.
        kernel.set_dumpable(True)
        try:
            self._everybody = os.open("/proc/self/io", os.O_RDONLY)
            self._guest = os.open("/proc/thread-self/io", os.O_RDONLY)
        except OSError:  # not every kernel is built with it
            self._everybody = -1
        finally:
            kernel.set_dumpable(False)
        try:
            self._newest = os.open("/proc/loadavg", os.O_RDONLY)
            self._lap = int(kernel.read_from("/proc/sys/kernel/pid_max")) - _FIRST_PID_OF_A_LAP
        except (OSError, ValueError):
            self._newest = -1
        self._first = self._written = 0
        self.restart()

    def restart(self) -> None:
        """Count from now, when nothing of the agent's runs."""
        self._first += self.started()
        self._written += self.written()

    def count_starts(self, more: int) -> None:
        """Count so many more than the kernel did; fewer, if negative, of what is not the agent's."""
        self._first -= more

    def written(self) -> int:
        """Bytes that ended processes, waited for by their parents up to the guest, gave to write calls; 0 if unknown.

        Files, pipes and sockets alike; what the guest writes itself, on the host's behalf, is left out.
        """
        if self._everybody < 0:
            return 0
        return _bytes_written(self._everybody) - _bytes_written(self._guest) - self._written

    def started(self) -> int:
        """Processes and threads started; a lap of all pids that nobody looked at goes uncounted. 0 if unknown."""
        if self._newest < 0:
            return 0
        text = os.pread(self._newest, 256, 0)
        newest = int(text[text.rindex(b" ") :])  # of this pid namespace
        if newest < self._last:
            self._laps += 1
        self._last = newest
        return self._laps * self._lap + newest - self._first


def number_after(word: bytes, text: bytes) -> int:
    """The number on the line that begins with a word which is found nowhere else; 0 without such a line."""
    start = text.find(word)
    return 0 if start < 0 else int(text[start + len(word) : text.index(b"\n", start)])


def written_by(pid: int) -> int:
    """Bytes that a living process, and those it waited for, gave to write calls; 0 if nobody may know."""
    try:
        with identity.as_agent():  # the process's own user may know
            descriptor = os.open(f"/proc/{pid}/io", os.O_RDONLY)
            try:
                return _bytes_written(descriptor)
            finally:
                os.close(descriptor)
    except OSError:
        return 0


def peak_kib(pid: int) -> int:
    """Most memory that a living process ever held; 0 if it is gone."""
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
