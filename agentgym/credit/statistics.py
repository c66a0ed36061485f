"""Means and spreads over the trajectories of a group: columns are turn indices, rows are trajectories.

Every function takes scores [N] or [N, T] and, where not all rows count in a column, `among`, a bool
array of the same shape. Statistics run over trajectories, never over tokens.
"""

from __future__ import annotations

import numpy as np

from agentgym.credit.options import Baseline, Scale
from agentgym.credit.signals import Array, Bools

SMALLEST_STD = 1e-8
SMALLEST_RELATIVE_STD = 1e-6
STD_EPSILON = 1e-6


def baseline_of(scores: Array, baseline: Baseline, among: Bools | None = None) -> Array:
    """Mean of each column over the rows in `among`: of the *other* rows for "loo", of all for "mean".

    Returns: the shape of `scores`; NaN where there is no row to take the mean of.
    """
    low, above, among = _above_least(scores, among)
    mean: Array = low + _mean(above, baseline, among)
    return mean


def centred(scores: Array, baseline: Baseline, among: Bools | None = None) -> Array:
    """Scores minus their `baseline_of`, without losing precision to a large offset that all of them share.

    Returns: the shape of `scores`; NaN where there is no baseline, meaningless outside `among`. Equal
    scores give exactly 0: in floating point (0.1 + 0.1 + 0.1) / 3 is not 0.1.
    """
    _, above, among = _above_least(scores, among)
    return above - _mean(above, baseline, among)


def spread(scores: Array, *, ddof: int, among: Bools | None = None) -> Array:
    """Standard deviation of each column over the rows in `among`; exactly 0 where they hardly differ.

    Hardly: at most 1e-8, or at most 1e-6 of the largest absolute score. Such a spread is rounding, and
    dividing by it would make an advantage of noise. Fewer than ddof + 1 rows have spread 0.
    Returns: the shape of `scores` without its first axis.
    """
    if among is None:
        among = np.ones(scores.shape, np.bool_)
    deviation = np.where(among, centred(scores, "mean", among), 0.0)
    count = among.sum(axis=0)
    std = np.sqrt((deviation**2).sum(axis=0) / np.maximum(count - ddof, 1))
    largest = np.abs(np.where(among, scores, 0.0)).max(axis=0, initial=0.0)
    tells = (std > SMALLEST_STD) & (std > SMALLEST_RELATIVE_STD * largest) & (count > ddof)
    return np.where(tells, std, 0.0)


def divide_by_std(differences: Array, std: Array) -> Array:
    """Differences over a spread (plus 1e-6); 0 where the spread is 0."""
    return np.where(std > 0, differences / (std + STD_EPSILON), 0.0)


def standardised(scores: Array, *, baseline: Baseline, ddof: int, among: Bools | None = None) -> Array:
    """(score - baseline) / spread in each column; 0 outside `among` and where there is no spread."""
    differences = np.nan_to_num(centred(scores, baseline, among))
    result = divide_by_std(differences, spread(scores, ddof=ddof, among=among))
    return result if among is None else np.where(among, result, 0.0)


def normalise_columns(scores: Array, among: Bools, *, baseline: Baseline, scale: Scale, ddof: int) -> Array:
    """Each column compared over the rows in `among`: minus its baseline and, for "std", over its spread.

    Returns: the shape of `scores`; 0 outside `among`, where nobody else is, and where nothing differs.
    """
    if scale == "std":
        return standardised(scores, baseline=baseline, ddof=ddof, among=among)
    return np.where(among, np.nan_to_num(centred(scores, baseline, among)), 0.0)


def _above_least(scores: Array, among: Bools | None) -> tuple[Array, Array, Bools]:
    """The least score of each column, how far each row in `among` is above it (0 for the rest), and `among`."""
    if among is None:
        among = np.ones(scores.shape, np.bool_)
    low = np.where(among, scores, np.inf).min(axis=0, initial=np.inf)
    low = np.where(np.isfinite(low), low, 0.0)
    return low, np.where(among, scores - low, 0.0), among


def _mean(above: Array, baseline: Baseline, among: Bools) -> Array:
    own, own_count = (above, among) if baseline == "loo" else (0.0, 0)
    count = np.broadcast_to(among.sum(axis=0) - own_count, above.shape)
    total = np.broadcast_to(above.sum(axis=0) - own, above.shape)
    mean: Array = np.divide(total, count, out=np.full(above.shape, np.nan), where=count > 0)
    return mean
