"""The bootstrap over tasks: how results would vary with other tasks of the same kind."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import EvaluationError
from agentgym.evaluation.statistics.estimate import Estimate, Outcomes, check_level, no_data, task_means
from agentgym.evaluation.statistics.quantiles import normal_cdf, t_quantile

FEW = 64
"""Up to this many distinct values, resamples are drawn as counts per value: the same distribution, much faster."""


def cluster_bootstrap(outcomes: Outcomes, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Estimate:
    """Return the expanded percentile bootstrap over tasks, which resamples whole tasks with all of their samples.

    Returns: mean of the task means with its interval, which has zero width for a single task.
    Raises: EvaluationError if a task has no sample or a value is not finite.
    Source: Field and Welsh 2007, J. R. Stat. Soc. B 69(3), section 2.3 (whole clusters); see mean_interval.
    """
    return mean_interval(task_means(outcomes), level=level, resamples=resamples, seed=seed, method="cluster bootstrap")


def mean_interval(
    values: NDArray[np.float64],
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    method: str = "bootstrap",
) -> Estimate:
    """Return the mean of one value per task, in any unit, with its expanded percentile bootstrap interval.

    The plain percentile interval is too narrow for few tasks, by about the factor t / z sqrt(n / (n - 1)). Using the
    tail probability Phi(-sqrt(n / (n - 1)) t) corrects this.
    Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", section 13.3; Hesterberg 2015, The American
        Statistician 69(4) (expanded percentile).
    """
    check_level(level)
    if resamples < 1:
        raise EvaluationError(f"resamples = {resamples} is not valid: give at least 1, usually 10,000.")
    if not values.size:
        return no_data(level, method)
    tail = expanded_tail(values.size, level)
    low, high = np.quantile(resampled_means(values, resamples, seed), [tail, 1 - tail])
    return Estimate(float(values.mean()), float(low), float(high), values.size, level, method)


def expanded_tail(n: int, level: float) -> float:
    """Return the share of resamples to cut off on each side, for `n` tasks."""
    if n < 2:
        return 0.5 - level / 2
    return normal_cdf(-math.sqrt(n / (n - 1)) * t_quantile(0.5 + level / 2, n - 1))


def resampled_means(values: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64]:
    """Return [resamples] means of `n` draws of the `n` values with replacement."""
    rng = np.random.default_rng(seed)
    n = values.size
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size <= FEW:
        return np.asarray(rng.multinomial(n, counts / n, resamples) @ distinct / n)
    means = np.empty(resamples)
    chunk = max(1, 2_000_000 // n)  # 16 MB of indices at once, for any number of tasks
    for start in range(0, resamples, chunk):
        picks = rng.integers(0, n, (min(chunk, resamples - start), n))
        means[start : start + len(picks)] = values[picks].mean(axis=1)
    return means
