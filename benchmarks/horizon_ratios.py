"""Cells of `benchmarks/horizon.py` compared over paired seeds: at equal episodes, and at equal processor time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from horizon_cells import VALIDATE_EVERY, episodes_per_step
from scipy import stats

Row = Mapping[str, Any]
Group = tuple[str, int, str]  # environment, horizon, feedback


@dataclass(frozen=True, slots=True)
class Ratio:
    """The cost of an arm to reach 80 %, as a multiple of another arm's cost, over paired seeds.

    Attributes:
        value, low, high: geometric mean with its 95 % t interval; NaN bounds for a single seed.
        p: p-value of a paired t test on the logarithms; NaN for a single seed.
        seeds: number of pairs.
        bound: "" if both arms reached 80 % in every pair; ">" if the arm failed in some pairs, so that the ratio is at
            least this; "<" if the other arm failed in some; "?" if both failed in some.
    """

    value: float
    low: float
    high: float
    p: float
    seeds: int
    bound: str

    @property
    def text(self) -> str:
        interval = "" if math.isnan(self.low) else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.bound}{self.value:.2f}{interval}"


def trained_of(row: Row) -> float:
    """Return the episodes of training to 80 %; all episodes if 80 % was not reached."""
    return float(row["episodes_to_target"] or row["episodes"])


def beside_of(row: Row) -> float:
    """Return the further episodes that the estimator played until 80 %, mostly forks."""
    return float(trained_of(row) / row["episodes"] * row["episodes_beside"])


def episodes_of(row: Row) -> float:
    """Return all episodes to 80 %, including the estimator's own; all played episodes if 80 % was not reached."""
    return trained_of(row) + beside_of(row)


def cpu_s_of(row: Row) -> float:
    """Return processor seconds of the whole run, which ends at 80 %: training, critics, forks, replays, evaluations."""
    return float(row["cpu_s"])


def mostly_solved(rows: Sequence[Row]) -> bool:
    """Return whether most seeds reached 80 %."""
    return sum(row["episodes_to_target"] is not None for row in rows) > len(rows) / 2


def ratio(these: Sequence[Row], those: Sequence[Row], cost: Callable[[Row], float] = episodes_of) -> Ratio | None:
    """Compare the costs of two arms over the seeds that both have; None without any."""
    others = {row["seed"]: row for row in those}
    pairs = [(row, others[row["seed"]]) for row in these if row["seed"] in others]
    if not pairs:
        return None
    logs = np.array([math.log(cost(a) / cost(b)) for a, b in pairs])
    open_ends = {(a["episodes_to_target"] is None, b["episodes_to_target"] is None) for a, b in pairs}
    above, below = any(a and not b for a, b in open_ends), any(b and not a for a, b in open_ends)
    bound = "?" if (True, True) in open_ends or (above and below) else ">" if above else "<" if below else ""
    mean, count = float(logs.mean()), len(logs)
    if count < 2:
        return Ratio(math.exp(mean), math.nan, math.nan, math.nan, count, bound)
    # Success is looked at every few steps only: equal values are equal up to that grid.
    grid = [
        (VALIDATE_EVERY * episodes_per_step(a["environment"]) / min(trained_of(a), trained_of(b))) ** 2 / 6
        for a, b in pairs
    ]
    error = math.sqrt(max(float(logs.var(ddof=1)), float(np.mean(grid))) / count)
    reach = float(stats.t.ppf(0.975, count - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, count - 1))
    return Ratio(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), p, count, bound)


def by_cell(rows: Sequence[Row]) -> dict[tuple[Group, str], list[Row]]:
    """Return the rows of each group and arm, by seed; `outcome` is in every group of its environment and horizon."""
    cells: dict[tuple[Group, str], list[Row]] = defaultdict(list)
    feedbacks = defaultdict(set)
    for row in rows:
        feedbacks[row["environment"], row["horizon"]].add(row["feedback"])
    for row in sorted(rows, key=lambda row: row["seed"]):
        environment, horizon = row["environment"], row["horizon"]
        groups = feedbacks[environment, horizon] if row["arm"] == "outcome" else {row["feedback"]}
        for feedback in groups:
            cells[(environment, horizon, feedback), row["arm"]].append(row)
    return cells
