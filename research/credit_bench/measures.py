"""Credit compared with the truth: its error, its signs, its position, and the noise of the gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentgym.credit.contract import Estimator
from agentgym.credit.signals import Array
from research.credit_bench.bifurcation import BifurcationTask

Ints = NDArray[np.int64]

RESAMPLES = 400


@dataclass(frozen=True, slots=True)
class BootstrapInterval:
    """A number with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CreditMeasures:
    """Measures of an estimator on groups with one number of turns.

    Attributes:
        error: sqrt(1 - c^2) with c the cosine between its advantages and the true ones over all turns, raised to 0 if
            negative: 0 is the truth up to a factor, 1 is no correlation with the truth.
        sign: share of decisive turns whose advantage has the true sign; an advantage of 0 counts half.
        focus: share of the squared credit on the decisive turn.
        noise: standard deviation of the gradient from one group, divided by the length of its mean.
    """

    error: BootstrapInterval
    sign: BootstrapInterval
    focus: BootstrapInterval
    noise: BootstrapInterval


def measure_credit(
    estimate: Estimator, turns: int, *, size: int = 8, groups: int = 200, chance: float = 0.5, seed: int = 0
) -> CreditMeasures:
    """Measure an estimator on `groups` groups of `size`, each on a task with another decisive turn.

    Args:
        chance: the policy's probability of action 1, at every turn.
    Raises: KeyError for a signal that bifurcation tasks do not have; errors of the estimator.
    """
    rng = np.random.default_rng([seed, turns])
    policy = np.full(turns, chance)
    sums = np.zeros((groups, 6))  # A.T, A.A, T.T, right signs, A.A at the decisive turn, turns with a sign
    gradients = np.zeros((groups, turns))
    tree = "branches" in estimate.requires
    for number in range(groups):
        decisive = int(rng.integers(turns))
        task = BifurcationTask(turns, decisive, seed=int(rng.integers(2**31)))
        sample = task.sample(policy, size, rng, tree=tree)
        credit = np.stack(estimate(task.group(sample, policy, rng, estimate.requires)))
        true = task.truth(sample.actions, policy)
        at_decisive, true_at_decisive = credit[:, decisive], true[:, decisive]
        right = np.where(at_decisive == 0, 0.5, np.sign(at_decisive) == np.sign(true_at_decisive)).sum()
        sums[number] = (
            (credit * true).sum(),
            (credit**2).sum(),
            (true**2).sum(),
            right,
            (at_decisive**2).sum(),
            len(at_decisive),
        )
        # rolled so that the decisive turn comes first: gradients of different tasks then have the same mean
        gradients[number] = np.roll((credit * (sample.actions - policy)).mean(axis=0), -decisive)
    resamples = rng.integers(0, groups, (RESAMPLES, groups))
    return CreditMeasures(
        error=_bootstrap(lambda rows: _error(sums[rows].sum(axis=0)), resamples),
        sign=_bootstrap(lambda rows: float(sums[rows, 3].sum() / sums[rows, 5].sum()), resamples),
        focus=_bootstrap(lambda rows: _share(sums[rows, 4].sum(), sums[rows, 1].sum()), resamples),
        noise=_bootstrap(lambda rows: _noise(gradients[rows]), resamples),
    )


def _error(sums: Array) -> float:
    product, norm, true = sums[:3]
    if norm <= 0:
        return 1.0
    cosine = max(0.0, float(product / np.sqrt(norm * true)))
    return float(np.sqrt(max(0.0, 1 - min(cosine, 1.0) ** 2)))


def _share(part: float, total: float) -> float:
    return float(part / total) if total > 0 else 0.0


def _noise(gradients: Array) -> float:
    length = float(np.linalg.norm(gradients.mean(axis=0)))
    return float(np.sqrt(gradients.var(axis=0, ddof=1).sum())) / length if length > 0 else float("inf")


def _bootstrap(of: Callable[[Ints], float], resamples: Ints) -> BootstrapInterval:
    """Return a statistic of all groups with its percentile bootstrap interval over groups."""
    value = of(np.arange(resamples.shape[1], dtype=np.int64))
    statistics = np.array([of(rows) for rows in resamples])
    known = statistics[np.isfinite(statistics)]
    if not len(known):  # without any credit the noise is infinite
        return BootstrapInterval(value, value, value)
    low, high = np.percentile(known, (2.5, 97.5))
    return BootstrapInterval(value, float(low), float(high))
