"""Does anything leak, and is every failure typed? `python benchmarks/soak.py [--count 20000] [--kills 0.05]`.

Host processes use sandboxes, many side by side. At random a sandbox's process 1, the spawner, or the host process
itself is killed outright (SIGKILL), and the host process started again. Before and after, everything that sandboxes
could leave behind is counted. Exit status 0 if nothing was left, and whatever failed said so with a typed error.

As an ordinary user: python tests/sandbox/as_ordinary_user.py benchmarks/soak.py
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from soak_census import bury, census, grown, host_memory, processes_below

from agentgym.registry import load
from agentgym.sandbox.guest import kernel

WORKER = Path(__file__).with_name("soak_worker.py")
HOST_SHARE = 0.06  # of the kills; each costs the start of a Python process, and all sandboxes it has
ENDING_S = 30.0
TYPED = {"ok", "SandboxDied", "SandboxUnavailable", "SandboxError", "lost with its host"}


@dataclass
class Tally:
    """The counts that the host processes reported."""

    outcomes: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    hosts: set[int] = field(default_factory=set)
    resident_mib: list[tuple[float, float]] = field(default_factory=list)
    slowest_end_s: float = 0.0
    cleaned: list[str] = field(default_factory=list)
    broken: bool = False

    @property
    def sandboxes(self) -> int:
        return self.outcomes.total()


@dataclass(frozen=True)
class Soak:
    """The options of a soak."""

    backend: str
    count: int
    at_once: int
    kills: float
    pool: int
    seed: int

    def run(self, private: Path) -> tuple[Tally, list[str], dict[str, float]]:
        """Run the soak. Returns: the reports, the faults, and the changes of the whole machine's figures."""
        rng, tally = random.Random(self.seed), Tally()
        host, before = host_memory(), census(private)
        while tally.sandboxes < self.count and not tally.broken:
            self._one_host(rng, tally)
        tally.faults += [f"{count} x {outcome}" for outcome, count in tally.outcomes.items() if outcome not in TYPED]
        asyncio.run(self._clean_up(tally))
        deadline = time.monotonic() + ENDING_S
        while (left := grown(before, census(private, tally.pids | tally.hosts))) and time.monotonic() < deadline:
            reap(tally)
            time.sleep(0.1)
        after = host_memory()
        return tally, tally.faults + left, {name: after[name] - value for name, value in host.items()}

    def _one_host(self, rng: random.Random, tally: Tally) -> None:
        """Start a host process and let it work until it is done, or its time is up."""
        left = self.count - tally.sandboxes
        rate = self.kills * HOST_SHARE
        life = int(rng.expovariate(rate)) + 1 if rate else left + 1
        kills = self.kills * (1 - HOST_SHARE)
        words = {
            "backend": self.backend,
            "count": left,
            "at-once": self.at_once,
            "kills": kills,
            "pool": self.pool,
            "seed": rng.randrange(2**31),
        }
        command = [sys.executable, str(WORKER), *(f"--{name}={value}" for name, value in words.items())]
        host = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        tally.hosts.add(host.pid)
        assert host.stdout is not None
        ended, killed, ready = 0, False, (0, 0.0)
        with host.stdout:
            for line in host.stdout:
                report: dict[str, Any] = json.loads(line)
                tally.pids.update(report.get("spawners", ()))
                if report["event"] == "ended":
                    ended += 1
                    tally.outcomes[report["outcome"]] += 1
                elif report["event"] == "killed":
                    tally.killed[report["what"]] += 1
                elif report["event"] == "ready":
                    ready = report["descriptors"], report["resident_mib"]
                elif report["event"] == "done":
                    tally.resident_mib.append((ready[1], report["resident_mib"]))
                    if report["descriptors"] > ready[0]:
                        tally.faults.append(
                            f"descriptors of a host process grew from {ready[0]} to {report['descriptors']}"
                        )
                elif report["event"] == "closed" and report["processes"]:
                    tally.faults.append(f"processes left by a closed backend: {report['processes'][:3]}")
                if ended >= life and ended < left and not killed:
                    killed = True
                    tally.pids.update(processes_below(host.pid))  # the spawners are among them
                    os.kill(host.pid, signal.SIGKILL)
        status = host.wait()
        if killed and status == -signal.SIGKILL:
            tally.killed["host"] += 1
            tally.outcomes["lost with its host"] += min(self.at_once, left - ended)
        elif status:
            tally.faults.append(f"a host process ended by itself with status {status}")
            tally.broken = True
        self._await_end(tally)

    def _await_end(self, tally: Tally) -> None:
        """Wait until everything below a dead host process has ended by itself."""
        began = time.monotonic()
        while below := reap(tally):
            if time.monotonic() > began + ENDING_S:
                tally.faults.append(f"alive {ENDING_S:g} s after their host: {list(below.items())[:3]}")
                for pid in below:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.005)
        tally.slowest_end_s = max(tally.slowest_end_s, time.monotonic() - began)

    async def refused(self) -> str:
        """Return why this backend makes no sandboxes here; empty if it does."""
        backend = load("backends", self.backend)()
        try:
            return (await backend.probe()).reason
        finally:
            await backend.close()

    async def _clean_up(self, tally: Tally) -> None:
        """Let the backend remove the leftovers of dead hosts, and count what still runs afterwards as faults."""
        backend = load("backends", self.backend)()
        if not hasattr(backend, "running"):
            return
        try:
            tally.cleaned = await backend.clean()
            for sandbox in await backend.running():
                if sandbox.orphaned or sandbox.owner in tally.hosts:
                    tally.faults.append(f"still running after clean: {sandbox}")
        finally:
            await backend.close()


def reap(tally: Tally) -> dict[int, str]:
    """Let go of orphans that have ended; they come to us, since we adopt them. Returns: those that live."""
    tally.pids.update(bury())  # any of them may have been one
    return processes_below(os.getpid())


def main() -> int:
    """Soak, print the results, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", default="namespaces", help="registered name")
    parser.add_argument("--count", type=int, default=20_000, help="sandboxes in all")
    parser.add_argument("--at-once", type=int, default=16, help="sandboxes side by side")
    parser.add_argument("--kills", type=float, default=0.05, help="how many of them meet a SIGKILL")
    parser.add_argument("--pool", type=int, default=0, help="take them from a pool that keeps so many ready")
    parser.add_argument("--seed", type=int, default=0)
    soak = Soak(**{name.replace("-", "_"): value for name, value in vars(parser.parse_args()).items()})
    kernel.adopt_orphans()
    with contextlib.suppress(OSError):  # an ordinary user may not; then the machine's own mounts are compared
        kernel.unshare(kernel.CLONE_NEWNS)
        kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    console, began = Console(), time.monotonic()
    if reason := asyncio.run(soak.refused()):
        console.print(f"No soak of {soak.backend}: {reason}", markup=False)
        return 2
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        os.environ["TMPDIR"] = folder
        tally, faults, change = soak.run(Path(folder))
    console.print(table(tally, change, time.monotonic() - began))
    for fault in faults:
        console.print(f"LEFT OR WRONG: {fault}", style="red", markup=False)
    verdict = f"FAILED, {len(faults)} findings" if faults else "passed: nothing left, every failure typed"
    console.print(f"Soak of {soak.backend}{f' with a pool of {soak.pool}' if soak.pool else ''}: {verdict}")
    return 1 if faults else 0


def table(tally: Tally, change: dict[str, float], seconds: float) -> Table:
    """Return the results as a table."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_row("user", "root" if os.geteuid() == 0 else f"{os.geteuid()}, an ordinary user")
    table.add_row("sandboxes", f"{tally.sandboxes:,} in {seconds:.0f} s, {tally.sandboxes / seconds:.0f} a second")
    table.add_row("killed", ", ".join(f"{count} x {what}" for what, count in tally.killed.most_common()) or "nothing")
    table.add_row("ended", ", ".join(f"{count:,} {what[:60]}" for what, count in tally.outcomes.most_common(8)))
    table.add_row(
        "host processes", f"{len(tally.hosts)}; all was gone {tally.slowest_end_s:.2f} s after the end of one"
    )
    if tally.cleaned:
        table.add_row("cleaned up", f"{len(tally.cleaned)} behind dead hosts, such as: {tally.cleaned[0]}")
    if tally.resident_mib:
        first, last = tally.resident_mib[-1]
        table.add_row("memory of the last", f"{first:.0f} MiB at its start, {last:.0f} at its end")
    table.add_row("whole machine", ", ".join(f"{name} {value:+.0f}" for name, value in change.items()))
    return table


if __name__ == "__main__":
    sys.exit(main())
