"""Compares the overhead of two checkouts in one run: `python benchmarks/overhead.py --against CHECKOUT`.

Each checkout has its own process, which measures one row at a time by the checkout's own benchmarks/overhead.py.
The two take turns, so that other load on the machine slows both alike; the best of many short slices is compared.
Processes are started afresh a few times, because a process's memory layout can make it a few per cent slower.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

NO_SLOWER = 0.97
HERE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Slice:
    """One row of the comparison, measured for about a third of a second at a time.

    Attributes:
        measure: called with the checkout's `overhead` module, returns a figure.
        per_round: number of slices in each round; fewer for slices that must be long.
        is_rate: whether more is better; otherwise the figure is a cost.
    """

    measure: Callable[[Any], float]
    per_round: int = 8
    is_rate: bool = True


SLICES = {
    "environment calls": Slice(lambda o: o.environment_calls(80_000)),
    "episode manager, recorded": Slice(lambda o: o.episodes_played(600)),
    "episode manager, recorded token by token": Slice(lambda o: o.episodes_played(600, tokens=True)),
    "the same with the ledger": Slice(lambda o: o.episodes_kept(250)),
    "the same with the ledger, token by token": Slice(lambda o: o.episodes_kept(250, tokens=True)),
    "0.2 s tools at concurrency 64": Slice(lambda o: o.latency_ratio(1), 2, is_rate=False),
    "a turn at 10 episodes at once": Slice(lambda o: o.turn_cost(10, 600), is_rate=False),
    "a turn at 100 episodes at once": Slice(lambda o: o.turn_cost(100, 600), is_rate=False),
    "a turn at 1,000 episodes at once": Slice(lambda o: o.turn_cost(1_000, 1_000), is_rate=False),
    "a turn at 10,000 episodes at once": Slice(lambda o: o.turn_cost(10_000, 10_000), 1, is_rate=False),
}


@dataclass
class Comparison:
    """The figures of one row, slice by slice, of this checkout and of the other."""

    name: str
    is_rate: bool
    this: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Return this checkout's speed divided by the other's, each by its best slice."""
        best = max if self.is_rate else min
        return self._speed(best(self.this), best(self.other))

    @property
    def median_ratio(self) -> float:
        """Return the median ratio over pairs of slices that were taken one after the other."""
        return statistics.median(map(self._speed, self.this, self.other))

    @property
    def holds(self) -> bool:
        return self.ratio >= NO_SLOWER

    def _speed(self, this: float, other: float) -> float:
        return this / other if self.is_rate else other / this


def compare(other: Path, *, rounds: int, only: str = "") -> list[Comparison]:
    """Measure both checkouts. `only`: the rows whose name contains it. Raises: RuntimeError when a process fails."""
    comparisons = [Comparison(name, row.is_rate) for name, row in SLICES.items() if only in name]
    for _ in range(rounds):
        with _measuring(HERE) as measure_this, _measuring(other.resolve()) as measure_other:
            for comparison in comparisons:
                pair = [(comparison.this, measure_this), (comparison.other, measure_other)]
                for _ in range(SLICES[comparison.name].per_round):
                    for figures, measure in pair:
                        figures.append(measure(comparison.name))
                    pair.reverse()
    return comparisons


@contextmanager
def _measuring(checkout: Path) -> Iterator[Callable[[str], float]]:
    """Start a process of a checkout. Yields: a function from the name of a row to a figure."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), str(checkout)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=checkout,
        env=os.environ | {"PYTHONHASHSEED": "0"},
    )
    assert process.stdin is not None and process.stdout is not None
    requests, answers = process.stdin, process.stdout

    def measure(name: str) -> float:
        print(name, file=requests, flush=True)
        if not (answer := answers.readline()):
            raise RuntimeError(f"Measuring {name!r} in {checkout} failed: see the error above.")
        return float(answer)

    try:
        yield measure
    finally:
        requests.close()
        process.wait()
        answers.close()


def serve(checkout: Path) -> None:
    """Measure, in the process of a checkout, each row that is requested on standard input."""
    overhead = _import_overhead(checkout)
    for name in map(str.strip, sys.stdin):
        print(SLICES[name].measure(overhead), flush=True)


def _import_overhead(checkout: Path) -> ModuleType:
    """Import the checkout's own benchmark with its own agentgym. Raises: RuntimeError for any other agentgym."""
    sys.path[:1] = [str(checkout), str(checkout / "benchmarks")]
    spec = importlib.util.spec_from_file_location("overhead", checkout / "benchmarks" / "overhead.py")
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{checkout} has no benchmarks/overhead.py.")
    module = sys.modules["overhead"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    source = Path(sys.modules["agentgym"].__file__ or "")
    if checkout not in source.parents:
        raise RuntimeError(f"agentgym was imported from {source}, not from {checkout}.")
    return module


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
