"""How often do the intervals of an evaluation cover the truth? A simulation over tasks, samples, success and pairing.

`python benchmarks/intervals.py` prints the table of docs/evaluate.md: one row per number of tasks and samples, with the
lowest and the mean coverage over the grid and the mean width, of the product and of the former methods (Wilson's
interval for rates, the expanded percentile bootstrap for pairs). `--every` prints each cell of the grid.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from agentgym.evaluation.comparison import paired
from agentgym.evaluation.statistics.bootstrap import mean_interval
from agentgym.evaluation.statistics.proportion import success_rate, wilson

Array = NDArray[np.float64]
RATES = (0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99)
PAIRS = (
    (0.01, 0.01),
    (0.01, 0.03),
    (0.03, 0.03),
    (0.03, 0.1),
    (0.1, 0.1),
    (0.3, 0.3),
    (0.3, 0.5),
    (0.9, 0.97),
    (0.95, 0.99),
)
WIDTHS = (0.5, 4.0, float("inf"))
"""Alpha plus beta of the tasks' chances: most tasks always or never solved, in between, all tasks alike."""
AGREEMENTS = (0.0, 0.9)
"""Share of tasks that are equally hard for both agents; those of the rest are independent."""


@dataclass(frozen=True)
class Cell:
    """One cell of the grid. `before` is None for the rate of one agent."""

    tasks: int
    samples: int
    before: float | None
    after: float
    width: float
    agreement: float = 0.0


@dataclass(frozen=True)
class Measured:
    """Coverage and mean width in a cell, of the product's interval and of the former one; NaN where that had none."""

    coverage: float
    width: float
    former_coverage: float
    former_width: float


def grid(sizes: tuple[int, ...], samples: tuple[int, ...]) -> Iterator[Cell]:
    """Return every cell: rates first, then pairs."""
    for n in sizes:
        for k in samples:
            for width in WIDTHS:
                yield from (Cell(n, k, None, rate, width) for rate in RATES)
                for before, after in PAIRS:
                    yield from (Cell(n, k, before, after, width, agreement) for agreement in AGREEMENTS)


def measure(cell: Cell, trials: int, seed: int = 0) -> Measured:
    """Simulate `trials` evaluations of one cell."""
    rng = np.random.default_rng([seed, cell.tasks, cell.samples, int(1000 * cell.after)])
    truth = _truth(cell.after, cell.width) - (_truth(cell.before, cell.width) if cell.before else 0.0)
    limits = []
    for _ in range(trials):
        quantiles = rng.random(cell.tasks)
        after = _solved(quantiles, cell.after, cell, rng)
        if cell.before is None:
            limits.append(_rate_limits(tuple(np.sort(after).tolist()), cell.samples))
            continue
        same = rng.random(cell.tasks) < cell.agreement
        before = _solved(np.where(same, quantiles, rng.random(cell.tasks)), cell.before, cell, rng)
        limits.append(_pair_limits(tuple(np.sort(after - before).tolist()), cell.samples))
    ends = np.array(limits)
    low, high = ends[:, 0::2], ends[:, 1::2]
    covered = ((low - 1e-9 <= truth) & (truth <= high + 1e-9)).mean(axis=0)
    widths = (high - low).mean(axis=0)
    return Measured(float(covered[0]), float(widths[0]), float(covered[1]), float(widths[1]))


@cache
def _chances(rate: float, width: float) -> Array:
    """Return 4,096 equally likely chances of a task, in ascending order."""
    if np.isinf(width):
        return np.full(4096, rate)
    return np.sort(np.random.default_rng(1).beta(rate * width, (1 - rate) * width, 4096))


def _truth(rate: float, width: float) -> float:
    return float(_chances(rate, width).mean())


def _solved(quantiles: Array, rate: float, cell: Cell, rng: np.random.Generator) -> Array:
    """Return [tasks] the number of solved samples of each task."""
    chances = _chances(rate, cell.width)[(quantiles * 4096).astype(int)]
    return np.asarray(rng.binomial(cell.samples, chances), np.float64)


@cache
def _rate_limits(solved: tuple[float, ...], samples: int) -> tuple[float, float, float, float]:
    """Return the ends of the product's interval, then of the former one; they differ only with one sample per task."""
    now = success_rate([[1.0] * int(s) + [0.0] * (samples - int(s)) for s in solved])
    former = wilson(sum(solved), len(solved)) if samples == 1 else now
    return now.low, now.high, former.low, former.high


@cache
def _pair_limits(differences: tuple[float, ...], samples: int) -> tuple[float, float, float, float]:
    """Return the ends of both intervals of the gain. Both methods depend only on the differences."""
    delta = np.array(differences) / samples
    now = paired([[max(0.0, -d)] for d in delta], [[max(0.0, d)] for d in delta], resamples=1000).difference
    former = mean_interval(delta, resamples=1000) if np.ptp(delta) else now
    return now.low, now.high, former.low, former.high


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[10, 15, 20, 50])
    parser.add_argument("--samples", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--trials", type=int, default=800)
    parser.add_argument("--every", action="store_true", help="print every cell of the grid, too")
    options = parser.parse_args()
    rows: dict[tuple[str, int, int], list[Measured]] = defaultdict(list)
    for cell in grid(tuple(options.tasks), tuple(options.samples)):
        measured = measure(cell, options.trials)
        rows["gain" if cell.before else "rate", cell.tasks, cell.samples].append(measured)
        if options.every:
            print(cell, measured, flush=True)
    print("| of | tasks | samples | covers at least | on average | width | formerly at least | on average | width |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (of, tasks, samples), cells in sorted(rows.items()):
        now = _summary([c.coverage for c in cells], [c.width for c in cells])
        former = _summary([c.former_coverage for c in cells], [c.former_width for c in cells])
        same = of == "rate" and samples > 1
        print(f"| {of} | {tasks} | {samples} | {now} | {'| |' if same else former} |")


def _summary(coverage: list[float], widths: list[float]) -> str:
    return f"{min(coverage):.1%} | {np.mean(coverage):.1%} | {100 * np.mean(widths):.0f} points"


if __name__ == "__main__":
    main()
