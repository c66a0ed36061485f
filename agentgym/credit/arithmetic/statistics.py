"""Means and standard deviations over the trajectories of a group: rows are trajectories, columns are turn indices.

Every function takes scores [N] or [N, T]. If some entries do not count, `mask` is a bool array of the same shape.
Statistics are over trajectories, never over tokens.
"""

from __future__ import annotations

import numpy as np

from agentgym.credit.options import Baseline, Scale
from agentgym.credit.signals import Array, Bools

SMALLEST_STD = 1e-8
SMALLEST_RELATIVE_STD = 1e-6
STD_EPSILON = 1e-6


def baseline_of(scores: Array, baseline: Baseline, mask: Bools | None = None) -> Array:
    """Return the mean of each column over the rows in `mask`: the *other* rows for "loo", all rows for "mean".

    Returns: the shape of `scores`; NaN where no row counts.
    """
    low, above, mask = _above_least(scores, mask)
    mean: Array = low + _mean(above, baseline, mask)
    return mean


def centred(scores: Array, baseline: Baseline, mask: Bools | None = None) -> Array:
    """Return the scores minus their `baseline_of`, without losing precision to a large common offset.

    Returns: the shape of `scores`; NaN where there is no baseline; undefined outside `mask`. Equal
    scores give exactly 0, although in floating point (0.1 + 0.1 + 0.1) / 3 is not 0.1.
    """
    _, above, mask = _above_least(scores, mask)
    return above - _mean(above, baseline, mask)


def stable_std(scores: Array, *, ddof: int, mask: Bools | None = None) -> Array:
    """Return the standard deviation of each column over the rows in `mask`; exactly 0 if they hardly differ.

    "Hardly" means by at most 1e-8, or at most 1e-6 of the largest absolute score: that is rounding, and dividing by it
    would turn noise into an advantage. With fewer than ddof + 1 rows the standard deviation is 0.
    Returns: the shape of `scores` without its first axis.
    """
    if mask is None:
        mask = np.ones(scores.shape, np.bool_)
    deviation = np.where(mask, centred(scores, "mean", mask), 0.0)
    count = mask.sum(axis=0)
    std = np.sqrt((deviation**2).sum(axis=0) / np.maximum(count - ddof, 1))
    largest = np.abs(np.where(mask, scores, 0.0)).max(axis=0, initial=0.0)
    differs = (std > SMALLEST_STD) & (std > SMALLEST_RELATIVE_STD * largest) & (count > ddof)
    return np.where(differs, std, 0.0)


def divide_by_std(differences: Array, std: Array) -> Array:
    """Return the differences over a standard deviation plus 1e-6; 0 where the standard deviation is 0."""
    return np.where(std > 0, differences / (std + STD_EPSILON), 0.0)


def standardised(scores: Array, *, baseline: Baseline, ddof: int, mask: Bools | None = None) -> Array:
    """Return (score - baseline) / standard deviation per column; 0 outside `mask` and where nothing differs."""
    differences = np.nan_to_num(centred(scores, baseline, mask))
    result = divide_by_std(differences, stable_std(scores, ddof=ddof, mask=mask))
    return result if mask is None else np.where(mask, result, 0.0)


def normalise_columns(scores: Array, mask: Bools, *, baseline: Baseline, scale: Scale, ddof: int) -> Array:
    """Subtract the baseline of each column and, with scale "std", divide by its standard deviation.

    Returns: the shape of `scores`; 0 outside `mask`, where no other row counts, and where nothing differs.
    """
    if scale == "std":
        return standardised(scores, baseline=baseline, ddof=ddof, mask=mask)
    return np.where(mask, np.nan_to_num(centred(scores, baseline, mask)), 0.0)


def subtract_index_baseline(turn_returns: Array, returns: Array, reached: Bools, baseline: Baseline) -> Array:
    """Return [N, T] the turn returns minus the baseline of their turn index; 0 where `reached` is False.

    At an index reached by a single trajectory, the baseline of the episode returns is used.

    Args:
        turn_returns: [N, T].
        returns: [N], of whole episodes.
        reached: [N, T], False where padding.
    """
    reached_by_one = reached.sum(axis=0) == 1
    above_returns = turn_returns - baseline_of(returns, baseline)[:, None]
    return np.where(reached, np.where(reached_by_one, above_returns, centred(turn_returns, baseline, reached)), 0.0)


def _above_least(scores: Array, mask: Bools | None) -> tuple[Array, Array, Bools]:
    """Return the lowest score of each column, how far each row in `mask` is above it (0 for the rest), and `mask`."""
    if mask is None:
        mask = np.ones(scores.shape, np.bool_)
    low = np.where(mask, scores, np.inf).min(axis=0, initial=np.inf)
    low = np.where(np.isfinite(low), low, 0.0)
    return low, np.where(mask, scores - low, 0.0), mask


def _mean(above: Array, baseline: Baseline, mask: Bools) -> Array:
    own_total, own_count = (above, mask) if baseline == "loo" else (0.0, 0)
    count, total = mask.sum(axis=0) - own_count, above.sum(axis=0) - own_total
    mean: Array = np.divide(total, count, out=np.full(above.shape, np.nan), where=count > 0)
    return mean
