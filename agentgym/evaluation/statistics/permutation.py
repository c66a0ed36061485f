"""Tests of two agents on the same tasks: sign test, McNemar, and the sign-flip permutation test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import EvaluationError

MAX_SAMPLES = 256
MAX_WORK = 200_000_000


def sign_test(better: int, worse: int) -> float:
    """Return the exact two-sided p-value for `better` and `worse` being equally likely; the caller drops ties.

    With one sample per task this is the exact McNemar test.
    Source: Dixon and Mood 1946, JASA 41(236); McNemar 1947, Psychometrika 12(2), its exact form.
    """
    n = better + worse
    if better < 0 or worse < 0:
        raise EvaluationError(f"The counts {better} (better) and {worse} (worse) must be at least 0.")
    tail = sum(math.comb(n, i) for i in range(min(better, worse) + 1))
    return float(min(Fraction(1), Fraction(2 * tail, 2**n)))


def mcnemar(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> float:
    """Return the exact two-sided p-value for two agents solving the same share, from one verdict per task and agent.

    Source: as sign_test; only tasks that exactly one agent solved are informative.
    """
    if before.shape != after.shape:
        raise EvaluationError(
            f"There are {before.size} verdicts before and {after.size} after, but a paired test needs the same tasks."
        )
    return sign_test(int((after & ~before).sum()), int((before & ~after).sum()))


def sign_flip_test(differences: NDArray[np.float64], *, resamples: int = 20_000, seed: int = 0) -> float:
    """Return the two-sided p-value of the mean difference if the sign of each task's difference is random.

    Exact (the distribution over all 2^n sign patterns) if the differences have a common denominator, as means of
    samples do; else estimated from `resamples` random patterns plus the observed one.
    The null hypothesis is that the agents are exchangeable. For equal agents, p <= 0.05 has a chance of at most 5 %,
    whatever the distribution of outcomes.
    Source: Fisher 1935, "The Design of Experiments", section 21; Phipson and Smyth 2010, Stat. Appl. Genet. Mol.
        Biol. 9(1), article 39 (random patterns, with the observed one counted).
    """
    sizes = np.abs(differences[differences != 0])
    if not sizes.size:
        return 1.0
    observed = abs(float(differences.sum()))
    counts = _as_whole_numbers(sizes)
    if counts is not None and counts.size * int(counts.sum()) <= MAX_WORK:
        return _exact(counts, round(observed * int(counts.sum()) / float(sizes.sum())))
    rng, hits, left = np.random.default_rng(seed), 1, resamples
    while left:
        rows = min(left, max(1, 2_000_000 // sizes.size))
        signs = rng.integers(0, 2, (rows, sizes.size), np.int8) * 2 - 1
        hits += int((np.abs(signs @ sizes) >= observed - 1e-9).sum())
        left -= rows
    return hits / (resamples + 1)


def _exact(sizes: NDArray[np.int64], observed: int) -> float:
    """Return P(|sum of +-sizes| >= observed), from the distribution of the sum of the positive terms."""
    total = int(sizes.sum())
    chance = np.zeros(total + 1)
    chance[0] = 1.0
    reached = 0
    for size in sizes:
        moved = chance[: reached + 1].copy()
        chance[: reached + 1] *= 0.5
        chance[size : reached + size + 1] += 0.5 * moved
        reached += int(size)
    sums = np.abs(2 * np.arange(total + 1) - total)
    return min(1.0, float(chance[sums >= observed].sum()))


def _as_whole_numbers(sizes: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Return the values as multiples of 1 over a common denominator; None if the denominators are too large."""
    common = 1
    for value in np.unique(sizes):
        fraction = Fraction(float(value)).limit_denominator(MAX_SAMPLES**2)
        if abs(float(fraction) - value) > 1e-12:
            return None
        common = math.lcm(common, fraction.denominator)
        if common > 10**6:
            return None
    scaled = sizes * common
    return np.rint(scaled).astype(np.int64)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for multiple tests: reject if the adjusted one is at most the level.

    Raises: EvaluationError for a value outside [0, 1].
    Source: Holm 1979, Scand. J. Stat. 6(2):65-70. Valid under any dependence of the tests.
    """
    given = np.asarray(p_values, np.float64)
    if given.size and not (np.isfinite(given).all() and given.min() >= 0 and given.max() <= 1):
        raise EvaluationError(f"p_values = {list(p_values)} is not valid: each must be from 0 to 1.")
    order = np.argsort(given, kind="stable")
    scaled = given[order] * (given.size - np.arange(given.size))
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled)) if given.size else scaled
    return [float(p) for p in adjusted]
