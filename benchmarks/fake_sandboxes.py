"""What do 5,000 sandboxes cost the process that holds them, and is one lost?

    make setup-cluster && python benchmarks/fake_sandboxes.py [--sandboxes 5000] [--nodes 5] [--quick]

The nodes are simulated by Ray on this host. The sandboxes on them are fakes without processes, which echo what they are
given; hosts, links, heartbeats, leases and calls are the real ones of the backend `ray`. Each sandbox is called a few
times; then the host of one node is killed (SIGKILL), and its sandboxes are made again elsewhere. A sandbox is lost if
it does not answer with its own data, and does not say that it died either. Exit status 0 if none was lost.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table
from simulated_cluster import simulated_cluster
from soak_worker import resident_mib

from agentgym import SandboxSpec, register
from agentgym.cluster import RayBackend
from agentgym.errors import SandboxDied
from agentgym.sandbox import Capabilities, ExecResult, Sandbox, Usage

AT_ONCE = 64
FAKE = "fake-for-benchmarks"
T, R = TypeVar("T"), TypeVar("R")


class FakeSandbox:
    """A sandbox without processes: `exec` gives back its input."""

    connections: tuple[Any, ...] = ()

    async def exec(self, argv: list[str], *, stdin: bytes = b"", **options: Any) -> ExecResult:
        return ExecResult(0, stdout=stdin)

    async def usage(self) -> Usage:
        return Usage()

    async def close(self) -> None: ...


class FakeBackend:
    """Makes fakes. `running` is empty: nothing of a fake outlives its host."""

    name = FAKE

    async def create(self, spec: SandboxSpec, *, snapshot: object = None) -> FakeSandbox:
        return FakeSandbox()

    async def probe(self) -> Capabilities:
        return Capabilities(True, "none")

    async def running(self) -> list[Any]:
        return []

    async def clean(self) -> list[str]:
        return []

    async def close(self) -> None: ...


async def each(items: Iterable[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
    """Await work on every item, AT_ONCE at a time."""
    left, results = iter(enumerate(items)), dict[int, R]()

    async def worker() -> None:
        for number, item in left:
            results[number] = await work(item)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return [results[number] for number in sorted(results)]


class Measured:
    """The costs of steps for this process, as rows of a table."""

    def __init__(self) -> None:
        self.table = Table("step", "sandboxes", "s", "CPU ms of this process, each", "MiB", "descriptors", "threads")

    async def step(self, name: str, items: list[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
        """Do a step for every item, and add its row."""
        began, cpu_s = time.perf_counter(), time.process_time()
        results = await each(items, work)
        cpu_ms = 1000 * (time.process_time() - cpu_s) / len(items) if items else 0.0
        figures = (f"{time.perf_counter() - began:.1f}", f"{cpu_ms:.2f}", f"{resident_mib():.0f}")
        counts = (len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")))
        self.table.add_row(name, f"{len(items):,}", *figures, *map(str, counts))
        return results


async def call(numbered: tuple[int, Sandbox]) -> str:
    """Return how a sandbox answers: "ok", "died", or "lost"."""
    number, sandbox = numbered
    data = f"{number}".encode() * 20
    try:
        return "ok" if (await sandbox.exec(["cat"], stdin=data)).stdout == data else "lost"
    except SandboxDied:
        return "died"


async def measure(address: str, sandboxes: int, rounds: int) -> tuple[Table, Counter[str], Counter[str]]:
    """Make, call, kill and close. Returns: the table, and the answers before and after the kill."""
    backend, measured = RayBackend(address, backend=FAKE), Measured()
    spec = SandboxSpec(accept_weaker=("all",))

    async def create(_: object) -> Sandbox:
        return await backend.create(spec)

    try:
        await (await backend.create(spec)).close()
        await measured.step("connected", list[int](), create)
        numbered = [*enumerate(await measured.step("create", [*range(sandboxes)], create))]
        before = Counter[str]()
        for _ in range(rounds):
            before.update(await measured.step("exec", numbered, call))
        victim = await numbered[0][1].host_pid()  # type: ignore[attr-defined]
        os.kill(victim, signal.SIGKILL)
        answers = dict(zip(numbered, await measured.step("exec after a host was killed", numbered, call), strict=True))
        after = Counter(answers.values())
        renewed = [item for item, answer in answers.items() if answer == "died"]
        renewed = [*enumerate(await measured.step("create again", renewed, create))]
        after.update(f"made again: {answer}" for answer in await measured.step("exec again", renewed, call))
        living = [item for item, answer in answers.items() if answer == "ok"] + renewed
        await measured.step("close", living, lambda item: item[1].close())
        return measured.table, before, after
    finally:
        await backend.close()


def main() -> int:
    """Measure, print, and return 1 if a sandbox was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sandboxes", type=int, default=5000)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="calls of each sandbox")
    parser.add_argument("--quick", action="store_true", help="100 sandboxes on 2 nodes")
    options = parser.parse_args()
    if options.quick:
        options.sandboxes, options.nodes, options.rounds = 100, 2, 1
    register(FAKE, FakeBackend, kind="backends")
    with simulated_cluster(options.nodes) as cluster:
        table, before, after = asyncio.run(measure(cluster.address, options.sandboxes, options.rounds))
    console = Console(soft_wrap=True)
    console.print(table)
    console.print(f"answers: {dict(before)}; after the kill: {dict(after)}")
    good = before == {"ok": options.sandboxes * options.rounds} and after["ok"] + after["died"] == options.sandboxes
    lost = not good or after["died"] != after["made again: ok"]
    console.print("A sandbox was lost." if lost else "No sandbox was lost.")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
