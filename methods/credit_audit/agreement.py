"""Measure how well an estimator's credit agrees with counterfactual credit, from advantages of the same turns.

Counterfactual credit of a turn is the mean return of episodes continued from after it, minus the mean return of
episodes continued from before it (VinePPO, Kazemnejad et al. 2024, arXiv:2410.01679). It is slow and noisy, but assumes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentgym.credit import Array, Group, arithmetic

Ints = NDArray[np.intp]

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Agreement:
    """The comparison of an estimator's credit with counterfactual credit.

    Attributes:
        turns: how many turns were compared.
        signed: how many turns have non-zero credit on both sides.
        sign: share of these turns with the same sign, with its 95 % interval (bootstrap over trajectories); NaN if
            `signed` is 0.
        rank: Spearman correlation over all turns, with its interval; NaN if one side does not vary.
    """

    turns: int
    signed: int
    sign: float
    sign_low: float
    sign_high: float
    rank: float
    rank_low: float
    rank_high: float


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Statistics of advantages, computed without replays.

    Attributes:
        zero_gradient: share of groups in which every advantage is 0, so that nothing is learnt from them.
        singletons: share of valid turns whose state no other trajectory of the group visited; NaN without state keys.
        variance: [T] variance of the advantages at each turn index, over valid trajectories that reached it.
    """

    zero_gradient: float
    singletons: float
    variance: tuple[float, ...]


def agreement(advantages: Sequence[Array], counterfactual: Sequence[Array], *, seed: int = 0) -> Agreement:
    """Compare two credits of the same turns, each given as one array per trajectory.

    Raises: ValueError if the two sides have different turns.
    """
    if [len(a) for a in advantages] != [len(b) for b in counterfactual]:
        raise ValueError(
            "The arrays of advantages and of counterfactual credit have different lengths. Give one array per "
            "trajectory on both sides, with one entry per turn."
        )
    count = len(advantages)
    all_rows = np.arange(count)
    rng = np.random.default_rng(seed)

    def sign(rows: Ints) -> float:
        a, b = _joined(advantages, rows), _joined(counterfactual, rows)
        known = (a != 0) & (b != 0)
        return float((np.sign(a) == np.sign(b))[known].mean()) if known.any() else float("nan")

    def rank(rows: Ints) -> float:
        return spearman(_joined(advantages, rows), _joined(counterfactual, rows))

    resamples = rng.integers(0, max(count, 1), (RESAMPLES if count else 0, count))
    signs, ranks = (np.array([of(rows) for rows in resamples]) for of in (sign, rank))
    a, b = _joined(advantages, all_rows), _joined(counterfactual, all_rows)
    return Agreement(
        len(a), int(((a != 0) & (b != 0)).sum()), sign(all_rows), *_interval(signs), rank(all_rows), *_interval(ranks)
    )


def group_statistics(groups: Sequence[Group], advantages: Sequence[Sequence[Array]]) -> GroupStatistics:
    """Return statistics of the advantages that an estimator gave to each group."""
    zero_gradient = 0
    by_index: dict[int, list[float]] = {}
    for group, credit in zip(groups, advantages, strict=True):
        zero_gradient += not any(np.any(a != 0) for a in credit)
        for row in np.flatnonzero(group.valid):
            for k, value in enumerate(credit[int(row)]):
                by_index.setdefault(k, []).append(float(value))
    return GroupStatistics(
        zero_gradient / len(groups) if groups else float("nan"),
        arithmetic.singleton_share(groups),
        tuple(float(np.var(by_index[k])) for k in sorted(by_index)),
    )


def counterfactual_credit(rewards: Array, values: Array) -> Array:
    """Return [K] r_k + V_{k+1} - V_k for each turn.

    Args:
        rewards: [K] turn rewards; NaN, for a turn without a reward, counts as 0.
        values: [K+1] mean return of episodes continued from before each turn; the last entry is the outcome itself.
    """
    credit: Array = np.nan_to_num(rewards) + values[1:] - values[:-1]
    return credit


def spearman(a: Array, b: Array) -> float:
    """Return the rank correlation, ties at their mean rank; NaN for fewer than 2 values, or if one side is constant."""
    if len(a) < 2:
        return float("nan")
    x, y = _ranks(a), _ranks(b)
    x, y = x - x.mean(), y - y.mean()
    length = float(np.sqrt((x**2).sum() * (y**2).sum()))
    return float((x * y).sum() / length) if length > 0 else float("nan")


def _ranks(values: Array) -> Array:
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Array = (last - (counts - 1) / 2)[where]
    return ranks


def _joined(arrays: Sequence[Array], rows: Ints) -> Array:
    return np.concatenate([np.zeros(0), *(arrays[int(row)] for row in rows)])


def _interval(estimates: Array) -> tuple[float, float]:
    known = estimates[np.isfinite(estimates)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.percentile(known, (2.5, 97.5))
    return float(low), float(high)
