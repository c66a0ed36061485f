"""Aggregate several runs on several tasks into one number robust to a few lucky runs, with intervals.

Scores are [runs, tasks]: a run is a training seed, a task any unit that is scored once per run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import EvaluationError
from agentgym.evaluation.statistics.estimate import Estimate, check_level

Scores = NDArray[np.float64]


def interquartile_mean(scores: Scores) -> float:
    """Return the mean of the middle half of all scores: robust like the median, efficient like the mean.

    Source: Agarwal et al. 2021, arXiv:2108.13264, section 4.3. Trims a quarter on each side, rounded down to whole
        scores, as scipy's trim_mean does.
    """
    flat = np.sort(_checked(scores), axis=None)
    cut = flat.size // 4
    return float(flat[cut : flat.size - cut].mean())


def performance_profile(scores: Scores, thresholds: Sequence[float]) -> NDArray[np.float64]:
    """Return [thresholds] the share of runs and tasks that score above each threshold.

    Source: Agarwal et al. 2021, section 4.2 (score distributions), after Dolan and More 2002, Math. Program. 91.
    """
    checked = _checked(scores)
    return np.array([float((checked > threshold).mean()) for threshold in thresholds])


def probability_of_improvement(after: Scores, before: Scores) -> float:
    """Return the chance that a run of one agent beats a run of the other on a random task; ties count half.

    Source: Agarwal et al. 2021, section 4.3: the Mann-Whitney U statistic over n x m, averaged over tasks.
    """
    treated, control = _checked(after), _checked(before)
    if treated.shape[1] != control.shape[1]:
        raise EvaluationError(
            f"The agents played {treated.shape[1]} and {control.shape[1]} tasks. Both must play the same tasks."
        )
    gaps = treated[:, None, :] - control[None, :, :]
    return float(((gaps > 0) + 0.5 * (gaps == 0)).mean())


def stratified_bootstrap(
    statistic: Callable[..., float], *scores: Scores, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Estimate:
    """Return a statistic of one or more agents' scores with its percentile interval over runs.

    Runs are resampled within each task, tasks are fixed: the interval covers other seeds, not other tasks.
    Source: Agarwal et al. 2021, section 4.1.
    """
    check_level(level)
    checked = [_checked(scores_by_task) for scores_by_task in scores]
    rng = np.random.default_rng(seed)

    def resample(task_scores: Scores) -> Scores:
        rows = rng.integers(0, task_scores.shape[0], task_scores.shape)
        return np.take_along_axis(task_scores, rows, axis=0)

    drawn = [statistic(*map(resample, checked)) for _ in range(resamples)]
    low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2])
    value = statistic(*checked)
    return Estimate(value, float(low), float(high), checked[0].shape[1], level, "stratified bootstrap")


def _checked(scores: Scores) -> Scores:
    array = np.asarray(scores, np.float64)
    if array.ndim != 2 or not array.size or not np.isfinite(array).all():
        raise EvaluationError(
            f"Scores of shape {array.shape} are not valid: give finite numbers of shape [runs, tasks], with at least "
            "one."
        )
    return array
