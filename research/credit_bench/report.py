"""The whole benchmark: every estimator on tasks of several lengths, as data for tables and plots."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agentgym.credit.contract import CreditWarning, Estimator, estimator
from agentgym.errors import CreditError
from research.credit_bench.bifurcation import SIGNAL_MAKERS
from research.credit_bench.learning import LearningSpeed, measure_learning
from research.credit_bench.measures import CreditMeasures, measure_credit

TURNS = (2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """One estimator at one number of turns. `skipped` is the reason if there are no figures."""

    name: str
    bias: str
    turns: int
    measures: CreditMeasures | None = None
    learning: LearningSpeed | None = None
    skipped: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def run_benchmark(
    names: Iterable[str],
    *,
    turns: Sequence[int] = TURNS,
    size: int = 8,
    groups: int = 200,
    seeds: int = 10,
    most: int = 300,
    progress: Callable[[str, int], None] | None = None,
) -> list[BenchmarkRow]:
    """Measure every estimator at every number of turns.

    Args:
        names: registered estimators. `size`: trajectories per group. `groups`: groups per measurement.
        seeds, most: number of learning runs, and the most steps of each.
        progress: called with the name and the number of turns before each measurement.
    Raises: UnknownNameError.
    """
    rows = []
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CreditWarning)
            chosen = estimator(name)
        for count in turns:
            if progress is not None:
                progress(name, count)
            rows.append(_row(chosen, count, size=size, groups=groups, seeds=seeds, most=most))
    return rows


def _row(chosen: Estimator, turns: int, *, size: int, groups: int, seeds: int, most: int) -> BenchmarkRow:
    missing = [signal for signal in chosen.requires if signal not in SIGNAL_MAKERS]
    if missing:
        return BenchmarkRow(chosen.name, chosen.bias, turns, skipped=f"the task gives no {', '.join(missing)}")
    try:
        measures = measure_credit(chosen, turns, size=size, groups=groups)
        learning = measure_learning(chosen, turns, size=size, most=most, seeds=seeds)
    except CreditError as error:
        return BenchmarkRow(chosen.name, chosen.bias, turns, skipped=str(error))
    return BenchmarkRow(chosen.name, chosen.bias, turns, measures, learning)
