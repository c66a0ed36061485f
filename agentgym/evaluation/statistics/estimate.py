"""An estimate with its interval, a comparison of two agents, and the outcomes that both are computed from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import EvaluationError
from agentgym.text import hundredfold

Outcomes = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval, in the same unit; without data, the number and both ends are NaN.

    Attributes:
        value: the point estimate. `low`, `high`: the two-sided interval at `level`.
        n: the number of tasks.
        method: the method of the interval, for the report: `wilson`, `cluster wilson`, `score`,
            `cluster bootstrap` or `paired bootstrap`.
    """

    value: float
    low: float
    high: float
    n: int
    level: float = 0.95
    method: str = ""

    def percent(self) -> str:
        """Return text for people: `41 % [38, 45]`."""
        if not self.n:
            return "no data"
        return f"{hundredfold(self.value)} % [{hundredfold(self.low)}, {hundredfold(self.high)}]"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two evaluations of the same tasks.

    Attributes:
        difference: mean over tasks of after minus before, in success rate, with its paired interval.
        better, worse, same: tasks whose success rate rose, fell, stayed.
        p_value: exact two-sided sign test over the tasks that changed; 1.0 if none did.
        permutation_p: two-sided sign-flip permutation test of the mean difference. With one sample of 0 or 1 per task,
            both p-values are those of McNemar's exact test.
    """

    difference: Estimate
    better: int
    worse: int
    same: int
    p_value: float
    permutation_p: float = 1.0

    @property
    def significant(self) -> bool:
        """Whether the interval excludes 0 and permutation_p agrees: true in at most 1 of 20 cases of equal agents."""
        outside = self.difference.low > 0 or self.difference.high < 0
        return outside and self.permutation_p <= 1 - self.difference.level + 1e-12


def task_means(outcomes: Outcomes) -> NDArray[np.float64]:
    """Return [tasks] the mean of each task's samples. Raises: EvaluationError naming a task without samples."""
    for index, samples in enumerate(outcomes):
        if not samples:
            raise EvaluationError(
                f"Task number {index} has no sample. Leave it out of the statistics, and report how many were left out."
            )
    means = np.array([math.fsum(samples) / len(samples) for samples in outcomes], dtype=np.float64)
    if not np.isfinite(means).all():
        raise EvaluationError("An outcome is not a finite number. Give outcomes from 0.0 to 1.0.")
    return means


def no_data(level: float, method: str) -> Estimate:
    """Return the estimate for zero tasks."""
    return Estimate(math.nan, math.nan, math.nan, 0, level, method)


def check_level(level: float) -> None:
    """Raise EvaluationError for a coverage that is not between 0 and 1."""
    if not 0 < level < 1:
        raise EvaluationError(f"level = {level!r} is not valid: give a coverage between 0 and 1, such as 0.95.")
