"""The measuring of benchmarks/sandbox.py: works in turn with their limits, wall and processor time, and the rows."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from agentgym import SandboxSpec

SPEC = SandboxSpec(accept_weaker=("all",))
Work = Callable[[], Awaitable[None]]
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Row:
    """One figure. `value` is None where it could not be measured, and `note` says why.

    Attributes:
        target: the bound it must keep; `more_is_better` says in which direction.
        beside, beside_value: a limit or a peer measured in the same run, in the same unit.
        middle_half: the figures between which half of the measurements lie.
    """

    name: str
    value: float | None
    unit: str
    target: float | None = None
    more_is_better: bool = False
    beside: str = ""
    beside_value: float | None = None
    middle_half: tuple[float, float] | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        """Return whether the target is met; true if there is no target or no figure."""
        if self.target is None or self.value is None:
            return True
        return self.value >= self.target if self.more_is_better else self.value <= self.target

    @property
    def ratio(self) -> float | None:
        """Return its cost divided by the other's; for rates, the inverse: below 1 is better than the peer."""
        if not self.value or not self.beside_value:
            return None
        return self.beside_value / self.value if self.more_is_better else self.value / self.beside_value


def timing(
    name: str, times: list[float], target: float | None = None, beside: str = "", others: list[float] | None = None
) -> Row:
    """Return a row with the median of milliseconds, beside the other's median."""
    half = (quantiles(times, n=4)[0], quantiles(times, n=4)[2]) if len(times) > 1 else None
    return Row(name, median(times), "ms", target, False, beside, median(others) if others else None, half)


async def in_turn(works: Mapping[str, Work], rounds: int) -> dict[str, list[float]]:
    """Do each work once a round, after one round that does not count. Returns: milliseconds of wall time by name.

    Other load on the machine then affects all of them alike.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            began = time.perf_counter()
            await work()
            if number:
                times[name].append(1000 * (time.perf_counter() - began))
    return times


async def processor_ms(work: Work, rounds: int) -> float:
    """Return processor milliseconds per round of this process, its children, and their ended children."""
    before = processor_s()
    for _ in range(rounds):
        await work()
    return 1000 * (processor_s() - before) / rounds


def processor_s() -> float:
    total = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    for child in children(os.getpid()):
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        total += sum(int(field) for field in fields[11:15]) / _TICKS
    return total


def children(pid: int) -> list[int]:
    """Return the pids of a process's children, whichever of its threads started them."""
    pids: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        pids += map(int, (thread / "children").read_text().split())
    return pids


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Print what is measured now, and afterwards how long it took."""
    began = time.monotonic()
    print(f"measuring {what} ...", end="", flush=True)
    try:
        yield
    finally:
        print(f" {time.monotonic() - began:.1f} s", flush=True)


def unmeasured(names: list[str], reason: str) -> list[Row]:
    """Return rows that say why they are empty."""
    return [Row(name, None, "ms", note=reason) for name in names]
