"""Enforces memory and CPU limits where no control group is available, by checking usage some twenty times a second.

Weaker than a limit: memory can exceed its bound until the next check; then the largest process is killed, as the kernel
would do. Processor time is kept down by stopping everything for a while. Three things it does not see: memory that
no process maps and whose owner hides its descriptors (an undumpable process); buffers of pipes and sockets; the time of
children that no process waits for.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from typing import Any, NamedTuple

from . import jobs, surroundings
from .runner import Runner

_PERIOD_S = 0.05
_EFFORT = 10  # checking may take at most a tenth of a core
_BURST_S = 0.1  # seconds of processor time that can be saved up
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_NOBODY = 0
_PAGE = resource.getpagesize()


class _Process(NamedTuple):
    """A process in /proc: its resident bytes, with shared pages counted in full, and its processor seconds."""

    pid: int
    resident: int
    cpu_s: float


class Watchdog:
    """Enforces the limits in `spec["missing"]` while anything runs. `kills`: how many processes it has killed."""

    def __init__(self, spec: dict[str, Any], runner: Runner) -> None:
        self._runner = runner
        self._memory: int | None = spec["memory"] if "memory" in spec["missing"] else None
        self._cores: float | None = spec["cores"] if "cpu" in spec["missing"] else None
        self._disk: int | None = spec["disk"] if "disk" in spec["missing"] else None
        self._processes: int | None = spec["processes"] if "processes" in spec["missing"] else None
        self._inodes: int = spec.get("inodes", 0)
        self._held = surroundings.Held(0, 0)
        self._next, self._checked_at, self._period_s = 0.0, time.monotonic(), _PERIOD_S
        self._cpu_s, self._credit_s, self._stopped = 0.0, 0.0, False
        self.kills = self.peak = 0
        memory = os.memfd_create("device") if self._memory else -1
        self._memfd_device = os.fstat(memory).st_dev if self._memory else 0
        if memory >= 0:
            os.close(memory)

    def due_s(self) -> float | None:
        """Return the seconds until the next check; None if there is nothing to check."""
        if (self._memory is None and self._cores is None and self._disk is None) or not self._runner.is_active():
            return None
        return max(self._next - time.monotonic(), 0.0)

    def check(self) -> None:
        """Check the limits, if it is time, and act on those that are exceeded."""
        started = time.monotonic()
        if self.due_s() != 0.0 or self._runner.is_frozen():
            return
        processes = _processes()
        if self._processes is not None and len(processes) > self._processes:
            jobs.signal_all(signal.SIGKILL)
        if self._memory is not None:
            self._enforce_memory(processes)
        if self._disk is not None:
            self._enforce_disk(self._disk)
        if self._cores is not None:
            self._enforce_cores(processes, started)
        self._next = started + max(self._period_s, _EFFORT * (time.monotonic() - started))

    def _enforce_memory(self, processes: list[_Process]) -> None:
        assert self._memory is not None
        held = self._in_memory_files(processes)
        files = jobs.disk_used() + sum(
            {inode: size for sizes in held.values() for inode, size in sizes.items()}.values()
        )
        upper_bound = files + sum(
            process.resident for process in processes
        )  # an upper bound: shared pages count several times
        used = upper_bound if upper_bound <= self._memory else sum(_proportional(processes, files).values())
        self.peak = max(self.peak, used)
        self._period_s = _PERIOD_S if used < self._memory / 2 else _PERIOD_S / 5
        if used <= self._memory:
            return
        jobs.signal_all(signal.SIGSTOP)  # stops the processes, so that nothing changes meanwhile
        shares = _proportional(_processes(), files)
        used = sum(shares.values())
        for pid in shares:
            shares[pid] += sum(held.get(pid, {}).values())
        for pid in sorted(shares, key=shares.__getitem__, reverse=True):
            if used <= self._memory:
                break
            if pid != _NOBODY:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.kills += 1
                used -= shares[pid]
        if not self._stopped:
            jobs.signal_all(signal.SIGCONT)

    def _enforce_disk(self, limit: int) -> None:
        """Kill what runs while the files take too much and become more. What makes them fewer may go on."""
        before, self._held = self._held, surroundings.files_held()
        too_much = self._held.bytes > max(limit, before.bytes) or self._held.files > max(self._inodes, before.files)
        if too_much:
            jobs.signal_all(signal.SIGKILL)

    def _in_memory_files(self, processes: list[_Process]) -> dict[int, dict[int, int]]:
        """Return the memory files (memfd_create) by process: inode numbers and bytes."""
        sizes: dict[int, dict[int, int]] = {}
        for process in processes:
            with contextlib.suppress(OSError):
                for name in os.listdir(f"/proc/{process.pid}/fd"):
                    with contextlib.suppress(OSError):
                        status = os.stat(f"/proc/{process.pid}/fd/{name}")
                        if status.st_dev == self._memfd_device:
                            sizes.setdefault(process.pid, {})[status.st_ino] = status.st_blocks * 512
        return sizes

    def _enforce_cores(self, processes: list[_Process], now: float) -> None:
        assert self._cores is not None
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = ended.ru_utime + ended.ru_stime + sum(process.cpu_s for process in processes)
        earned, spent = self._cores * (now - self._checked_at), max(cpu_s - self._cpu_s, 0.0)
        self._credit_s = min(self._credit_s + earned - spent, self._cores * _BURST_S)
        self._cpu_s, self._checked_at = cpu_s, now
        if (self._credit_s < 0) != self._stopped:
            self._stopped = not self._stopped
            jobs.signal_all(signal.SIGSTOP if self._stopped else signal.SIGCONT)
        elif self._stopped:
            jobs.signal_all(signal.SIGSTOP)  # includes processes started since


def _processes() -> list[_Process]:
    """Return every process in the sandbox except the guest."""
    processes = []
    for pid in surroundings.agent_pids():
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            # includes the children that it has waited for
            cpu_s = sum(int(fields[column]) for column in (11, 12, 13, 14)) * _TICK_S
            processes.append(_Process(pid, int(fields[21]) * _PAGE, cpu_s))
    return processes


def _proportional(processes: list[_Process], files: int) -> dict[int, int]:
    """Return the bytes by process, with shared pages divided among the processes that share them.

    The key `_NOBODY` holds the shared memory or `files`, whichever is more.
    """
    shares, shared = {}, 0
    for process in processes:
        try:
            with open(f"/proc/{process.pid}/smaps_rollup", "rb") as file:
                kib = {line.split()[0]: int(line.split()[1]) for line in file.read().splitlines()[1:]}
        except OSError:  # the process is undumpable, or has ended
            shares[process.pid] = process.resident
            continue
        shares[process.pid] = kib.get(b"Pss_Anon:", 0) * 1024
        shared += kib.get(b"Pss_Shmem:", 0) * 1024
    return {**shares, _NOBODY: max(files, shared)}  # mapped files would otherwise count twice
