"""Whether runs of `benchmarks/horizon.py` on another machine agree with stored ones: `--compare`.

A cell's runs of both machines differ in the order of floating-point sums, and so, after some steps, in what is sampled.
For each cell, a prediction interval for the mean of as many new runs is computed. The spread between seeds is estimated
from all cells together, because most cells have few. All intervals hold at once with a chance of 95 % (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from horizon_cells import VALIDATE_EVERY, episodes_per_step
from horizon_ratios import Group, Row, by_cell, trained_of
from scipy import stats

from agentgym.errors import EvaluationError

Measure = Callable[[Row], float]


@dataclass(frozen=True, slots=True)
class Agreement:
    """A cell's mean in new runs, and the expected interval.

    Attributes:
        measure: "episodes", to 80 % and as a geometric mean, or "held out", the success on held-out tasks.
        mean: the mean of the new runs. low, high: the interval predicted from the stored runs.
    """

    cell: str
    measure: str
    mean: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        return self.low <= self.mean <= self.high

    @property
    def text(self) -> str:
        digits = ",.0f" if self.measure == "episodes" else ".2f"
        verdict = "within" if self.inside else "OUTSIDE"
        return (
            f"{self.cell}, {self.measure}: {self.mean:{digits}} {verdict} {self.low:{digits}} to {self.high:{digits}}"
        )


def agreements(new: Sequence[Row], stored: Sequence[Row]) -> list[Agreement]:
    """Compare each cell of the new runs that was stored too. Raises: EvaluationError if none or too few were.

    A new run that ended before 80 % counts as many episodes as it played, and so do stored runs that needed more.
    """
    fresh, known = by_cell(new), by_cell(stored)
    shared = [  # the runs of `outcome` stand once, under their own feedback
        (group, arm) for group, arm in sorted(fresh.keys() & known.keys()) if arm != "outcome" or group[2] == "outcome"
    ]
    if sum(len(known[key]) - 1 for key in shared) < 2:
        raise EvaluationError(
            "Too few of these cells were stored with several seeds: there is nothing to compare with."
        )
    most = min((row["episodes"] for row in new if row["episodes_to_target"] is None), default=math.inf)
    grid = VALIDATE_EVERY * max(episodes_per_step(row["environment"]) for row in new)

    def episodes(row: Row) -> float:
        return math.log(min(trained_of(row), most))

    typical = float(np.median([trained_of(row) for key in shared for row in known[key]]))
    both: tuple[tuple[str, Measure, float], ...] = (
        ("episodes", episodes, grid / typical / math.sqrt(12)),
        ("held out", lambda row: float(row["held_out"]), 0.0),
    )
    return [
        agreement
        for name, measure, least in both
        for agreement in _by_cell(shared, fresh, known, name, measure, least, comparisons=len(both) * len(shared))
    ]


def _by_cell(
    shared: Sequence[tuple[Group, str]],
    fresh: Mapping[tuple[Group, str], Sequence[Row]],
    known: Mapping[tuple[Group, str], Sequence[Row]],
    name: str,
    measure: Measure,
    least: float,
    *,
    comparisons: int,
) -> list[Agreement]:
    """Return one measure of every cell. `least`: the smallest standard deviation between seeds."""
    values = {key: np.array([measure(row) for row in known[key]]) for key in shared}
    freedom = sum(len(sample) - 1 for sample in values.values())
    squares = sum(float(((sample - sample.mean()) ** 2).sum()) for sample in values.values())
    deviation = max(math.sqrt(squares / freedom), least)
    quantile = float(stats.t.ppf(1 - 0.025 / comparisons, freedom))
    back = math.exp if name == "episodes" else float
    compared = []
    for key in shared:
        (environment, horizon, feedback), arm = key
        mean, middle = float(np.mean([measure(row) for row in fresh[key]])), float(values[key].mean())
        reach = quantile * deviation * math.sqrt(1 / len(values[key]) + 1 / len(fresh[key]))
        bounds = (back(mean), back(middle - reach), back(middle + reach))
        compared.append(Agreement(f"{environment}, {horizon} turns, {feedback}, {arm}", name, *bounds))
    return compared


def compared_text(new: Sequence[Row], stored: Sequence[Row]) -> tuple[str, bool]:
    """Return a line for each cell and measure, and whether all lie within their intervals. Raises: EvaluationError."""
    compared = agreements(new, stored)
    outside = sum(not agreement.inside for agreement in compared)
    lines = [agreement.text for agreement in compared]
    lines.append(f"{len(compared) - outside} of {len(compared)} means lie within the intervals of the stored runs.")
    return "\n".join(lines), not outside
