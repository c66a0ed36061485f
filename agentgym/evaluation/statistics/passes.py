"""pass@k and pass^k: luck and reliability over several tries, with intervals over tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import EvaluationError
from agentgym.evaluation.statistics.bootstrap import mean_interval
from agentgym.evaluation.statistics.estimate import Estimate, Outcomes
from agentgym.evaluation.statistics.proportion import success_rate
from agentgym.evaluation.statistics.score import FEW_TASKS, differing_tasks, score_interval


def pass_at_k(n: int, successes: int, k: int) -> float:
    """Estimate without bias the chance that at least one of `k` samples solves the task, from `n >= k` samples.

    1 - C(n - successes, k) / C(n, k), as a product so that large n do not overflow.
    Raises: EvaluationError unless 1 <= k <= n and 0 <= successes <= n.
    Source: Chen et al. 2021, arXiv:2107.03374, eq. 1.
    """
    _check_counts(n, successes, k)
    if n - successes < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - successes + 1, n + 1))


def pass_hat_k(n: int, successes: int, k: int) -> float:
    """Estimate without bias the chance that all of `k` samples solve the task, pass^k: C(successes, k) / C(n, k).

    Raises: EvaluationError unless 1 <= k <= n and 0 <= successes <= n.
    Source: Yao et al. 2024 (tau-bench), arXiv:2406.12045, section 4.
    """
    _check_counts(n, successes, k)
    return math.comb(successes, k) / math.comb(n, k)


def pass_curve(
    outcomes: Outcomes, ks: Sequence[int] | None = None, *, all_of_them: bool = False, level: float = 0.95
) -> dict[int, Estimate]:
    """Return pass@k for several k, or pass^k with `all_of_them`, each with its interval over tasks.

    Args:
        ks: by default 1, 2, 4, 8, ... up to the smallest number of samples of any task.
    Returns: estimates by k. A sample counts as solved at 1.0; for 0/1 samples, k = 1 is the success rate. If every
        task gives the same value, the bootstrap has zero width, and the interval of `success_rate` is used. If at most
        ten tasks differ from the most common value, `score_interval` is used.
    Raises: EvaluationError if a task has fewer than k samples.
    """
    fewest = min(map(len, outcomes), default=0)
    chosen = ks if ks is not None else [2**i for i in range(fewest.bit_length())]
    probability = pass_hat_k if all_of_them else pass_at_k
    curve = {}
    for k in chosen:
        values = np.array([probability(len(o), sum(v >= 1.0 for v in o), k) for o in outcomes], np.float64)
        if k == 1:
            curve[k] = success_rate([[float(v >= 1.0) for v in o] for o in outcomes], level=level)
        else:
            curve[k] = task_share(values, level=level)
    return curve


def task_share(values: NDArray[np.float64], *, level: float) -> Estimate:
    """Return the mean of one share a task, from 0 to 1, with its interval over tasks; see `pass_curve` for which."""
    if not values.size or float(np.ptp(values)) == 0.0:
        return success_rate([[float(v)] for v in values], level=level)
    if differing_tasks(values) <= FEW_TASKS:
        return score_interval(values, 0.0, 1.0, level=level)
    return mean_interval(values, level=level, method="cluster bootstrap")


def _check_counts(n: int, successes: int, k: int) -> None:
    if not 1 <= k <= n or not 0 <= successes <= n:
        raise EvaluationError(
            f"k={k}, n={n}, successes={successes} is not possible: expected 1 <= k <= n and 0 <= successes <= n. "
            "pass@k needs at least k samples of every task."
        )
