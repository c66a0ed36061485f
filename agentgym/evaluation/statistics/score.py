"""Score intervals of the mean of bounded values, used if few values differ: the bootstrap ignores unobserved values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentgym.evaluation.statistics.estimate import Estimate, check_level, no_data
from agentgym.evaluation.statistics.quantiles import normal_quantile

FEW_TASKS = 10
"""Up to this many tasks that differ from the most common value, the score interval replaces the bootstrap."""
STEPS = 32


def differing_tasks(values: NDArray[np.float64]) -> int:
    """Return how many values differ from the most common one."""
    return int(values.size - np.unique(values, return_counts=True)[1].max()) if values.size else 0


def score_interval(values: NDArray[np.float64], low: float, high: float, *, level: float = 0.95) -> Estimate:
    """Return the mean of one value per task, each in [low, high], with its score interval.

    The interval contains every mean m with n (mean - m)^2 <= z^2 V(m). V(m) is the variance of the maximum-likelihood
    distribution on [low, high] with mean m, which may put weight on the bounds even if no task has that value. So the
    interval allows for unobserved changes. Values of 0 and 1 in [0, 1] give Wilson's interval, and -1, 0 and 1 in
    [-1, 1] Tango's for paired proportions. The extension to several samples per task is ours.
    Source: Wilson 1927, JASA 22(158); Tango 1998, Statistics in Medicine 17(8); the likelihood of a given mean: Owen
        2001, "Empirical Likelihood", section 2.
    """
    check_level(level)
    if not values.size:
        return no_data(level, "score")
    distinct, counts = np.unique(values, return_counts=True)
    weights, mean = counts / values.size, float(values.mean())
    z = normal_quantile(0.5 + level / 2)
    margin = z * z / values.size

    def end(bound: float) -> float:
        inside, outside = mean, bound
        for _ in range(STEPS):
            middle = (inside + outside) / 2
            if (mean - middle) ** 2 > margin * _variance(distinct, weights, middle, low, high):
                outside = middle
            else:
                inside = middle
        return outside

    return Estimate(mean, end(low), end(high), values.size, level, "score")


def _variance(values: NDArray[np.float64], weights: NDArray[np.float64], mean: float, low: float, high: float) -> float:
    """Return the variance of the maximum-likelihood distribution on [low, high] with this mean, for weighted values.

    Its probabilities are weights / (1 + tilt (values - mean)). If even the strongest tilt that keeps them non-negative
    is too weak, the missing probability lies on the bound.
    """
    if mean < float(weights @ values):
        return _variance(-values[::-1], weights[::-1], -mean, -high, -low)
    offsets = values - mean
    strongest = -1 / (high - mean) if high > mean else 0.0
    if values[-1] < high:
        chances = weights / (1 + strongest * offsets)
        missing = 1 - float(chances.sum())
        if missing >= 0:
            return float(chances @ offsets**2) + missing * (high - mean) ** 2
    weak = 0.0
    for _ in range(STEPS):
        tilt = (strongest + weak) / 2
        if float((weights * offsets / (1 + tilt * offsets)).sum()) > 0:
            strongest = tilt
        else:
            weak = tilt
    return float((weights / (1 + tilt * offsets)) @ offsets**2)
