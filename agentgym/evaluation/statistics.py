"""The statistics of evaluation: intervals, pass@k, paired comparison. numpy only.

Outcomes are a list with one entry a task, each the list of that task's samples (1.0 solved, 0.0 not).
The samples of one task are no independent draws, so the task is the unit of every interval here.
A task without any sample (all of its episodes failed) is left out by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import EvaluationError

Outcomes = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval. All three are in the unit of the number; `low` and `high` are NaN for no data.

    Attributes:
        value: the point estimate. `low`, `high`: the two-sided interval at `level`.
        n: how many tasks it rests on.
        method: how the interval was made, for the report: `wilson` or `cluster bootstrap`.
    """

    value: float
    low: float
    high: float
    n: int
    level: float = 0.95
    method: str = ""

    def percent(self) -> str:
        """For people: `41 % [38, 45]`."""
        if not self.n:
            return "no data"
        return f"{100 * self.value:.0f} % [{100 * self.low:.0f}, {100 * self.high:.0f}]"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two evaluations of the same tasks.

    Attributes:
        difference: mean over tasks of after minus before, in success rate, with its paired interval.
        better, worse, same: tasks whose success rate rose, fell, stayed.
        p_value: exact two-sided sign test over the tasks that changed; 1.0 where none did.
    """

    difference: Estimate
    better: int
    worse: int
    same: int
    p_value: float

    @property
    def significant(self) -> bool:
        """The interval excludes 0."""
        return self.difference.low > 0 or self.difference.high < 0


def wilson(successes: float, n: int, *, level: float = 0.95) -> Estimate:
    """Score interval of a proportion; right also at 0 and at n, where the normal interval has no width.

    Args:
        successes: how many of `n` independent trials succeeded, in [0, n].
        level: coverage, in (0, 1).
    Returns: the proportion with its interval in [0, 1]; all NaN if n is 0.
    Raises: EvaluationError if the counts or the level make no sense.
    Source: Wilson 1927, JASA 22(158), p. 209-212; as eq. 4 of Brown, Cai, DasGupta 2001, Stat. Sci. 16(2).
    """
    _check_level(level)
    if n < 0 or not 0 <= successes <= max(n, 0):
        raise EvaluationError(f"{successes!r} successes of {n!r}: expected 0 <= successes <= n.")
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0, level, "wilson")
    z2 = NormalDist().inv_cdf(0.5 + level / 2) ** 2
    rate = successes / n
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (rate * (1 - rate) + z2 / (4 * n)) / n) / (1 + z2 / n)
    # at the ends the score interval touches 0 or 1 exactly; floating point would miss by 1e-17
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Estimate(rate, low, high, n, level, "wilson")


def cluster_bootstrap(outcomes: Outcomes, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Estimate:
    """Percentile interval of the mean success, drawing whole tasks with all their samples.

    Every task weighs the same, also where it lost samples to failures. Drawing again within the drawn
    tasks would count the sampling noise twice, so samples stay with their task.

    Returns: mean over tasks of their mean, with its interval; a single task gives an interval without width.
    Raises: EvaluationError if a task has no sample or a value is not finite.
    Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", section 13.3 (percentile);
        Field and Welsh 2007, J. R. Stat. Soc. B 69(3), section 2.3 (whole clusters).
    """
    _check_level(level)
    means = task_means(outcomes)
    if means.size == 0:
        return Estimate(math.nan, math.nan, math.nan, 0, level, "cluster bootstrap")
    low, high = _percentiles(means, level, resamples, seed)
    return Estimate(float(means.mean()), low, high, means.size, level, "cluster bootstrap")


def success_rate(outcomes: Outcomes, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Estimate:
    """Mean success over tasks: Wilson where each task has one sample of 0 or 1, else the cluster bootstrap.

    Where every sample of every task agrees the bootstrap has no width, which says more than the data: then
    Wilson over tasks is given instead, which is the more careful of the two.
    """
    means = task_means(outcomes)
    single = all(len(samples) == 1 for samples in outcomes) and bool(np.isin(means, (0.0, 1.0)).all())
    if means.size and (single or float(np.ptp(means)) == 0.0):
        return wilson(float(means.sum()), means.size, level=level)
    return cluster_bootstrap(outcomes, level=level, resamples=resamples, seed=seed)


def pass_at_k(n: int, successes: int, k: int) -> float:
    """Unbiased chance that at least one of `k` samples solves the task, from `n >= k` samples.

    1 - C(n - c, k) / C(n, k), as a product so that large n do not overflow.
    Raises: EvaluationError unless 1 <= k <= n and 0 <= successes <= n.
    Source: Chen et al. 2021, arXiv:2107.03374, eq. 1.
    """
    _check_counts(n, successes, k)
    if n - successes < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - successes + 1, n + 1))


def pass_hat_k(n: int, successes: int, k: int) -> float:
    """Unbiased chance that all of `k` samples solve the task, written pass^k: C(c, k) / C(n, k).

    Raises: EvaluationError unless 1 <= k <= n and 0 <= successes <= n.
    Source: Yao et al. 2024 (tau-bench), arXiv:2406.12045, section 4.
    """
    _check_counts(n, successes, k)
    return math.comb(successes, k) / math.comb(n, k)


def sign_test(better: int, worse: int) -> float:
    """Exact two-sided p-value that `better` and `worse` are equally likely; ties were dropped before.

    With one sample a task this is the exact McNemar test.
    Source: Dixon and Mood 1946, JASA 41(236); McNemar 1947, Psychometrika 12(2), its exact form.
    """
    n = better + worse
    if better < 0 or worse < 0:
        raise EvaluationError(f"{better} better and {worse} worse: counts are at least 0.")
    tail = sum(math.comb(n, i) for i in range(min(better, worse) + 1))
    share: float = 2 * tail / 2**n
    return min(1.0, share)


def paired(
    before: Outcomes, after: Outcomes, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Comparison:
    """Compare two agents on the same tasks, entry by entry.

    The interval is the percentile bootstrap over the tasks' differences, so what makes a task hard for both
    cancels. Where every task changed by the same amount the bootstrap has no width; then Wilson's interval bounds
    the share of tasks that change so, and the rest is taken at its worst, -1 or +1.
    Raises: EvaluationError if the lists differ in length, or a task has no sample on either side.
    Source: as cluster_bootstrap, on differences; p_value: see sign_test.
    """
    _check_level(level)
    if len(before) != len(after):
        raise EvaluationError(f"{len(before)} tasks before and {len(after)} after: pairs need the same tasks.")
    delta = task_means(after) - task_means(before)
    better, worse = int((delta > 0).sum()), int((delta < 0).sum())
    if delta.size == 0:
        nothing = Estimate(math.nan, math.nan, math.nan, 0, level, "paired bootstrap")
        return Comparison(nothing, 0, 0, 0, 1.0)
    mean, method = float(delta.mean()), "paired bootstrap"
    if float(np.ptp(delta)) == 0.0:
        alike, method = wilson(delta.size, delta.size, level=level).low, "wilson, worst case"
        low, high = max(-1.0, mean * alike - (1 - alike)), min(1.0, mean * alike + (1 - alike))
    else:
        low, high = _percentiles(delta, level, resamples, seed)
    difference = Estimate(mean, low, high, delta.size, level, method)
    return Comparison(difference, better, worse, delta.size - better - worse, sign_test(better, worse))


def task_means(outcomes: Outcomes) -> NDArray[np.float64]:
    """[tasks] mean of each task's samples. Raises: EvaluationError naming the task that has none."""
    for index, samples in enumerate(outcomes):
        if not samples:
            raise EvaluationError(f"Task number {index} has no sample: leave it out of the statistics and count it.")
    means = np.array([math.fsum(samples) / len(samples) for samples in outcomes], dtype=np.float64)
    if not np.isfinite(means).all():
        raise EvaluationError("An outcome is not a finite number. Outcomes are 0.0 to 1.0.")
    return means


def _percentiles(values: NDArray[np.float64], level: float, resamples: int, seed: int) -> tuple[float, float]:
    if resamples < 1:
        raise EvaluationError(f"resamples is {resamples}: at least 1 is needed, 10,000 is usual.")
    rng = np.random.default_rng(seed)
    means = np.empty(resamples)
    chunk = max(1, 2_000_000 // values.size)  # 16 MB of indices at once, however many tasks there are
    for start in range(0, resamples, chunk):
        picks = rng.integers(0, values.size, (min(chunk, resamples - start), values.size))
        means[start : start + len(picks)] = values[picks].mean(axis=1)
    low, high = np.quantile(means, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise EvaluationError(f"level is {level!r}: a coverage such as 0.95 lies between 0 and 1.")


def _check_counts(n: int, successes: int, k: int) -> None:
    if not 1 <= k <= n or not 0 <= successes <= n:
        raise EvaluationError(
            f"k={k}, n={n}, successes={successes}: expected 1 <= k <= n and 0 <= successes <= n. "
            "pass@k needs at least k samples of every task."
        )
