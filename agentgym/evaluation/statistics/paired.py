"""Two agents on the same tasks, task by task: what makes a task hard for both cancels."""

from __future__ import annotations

import numpy as np

from agentgym.errors import EvaluationError
from agentgym.evaluation.statistics.bootstrap import mean_interval
from agentgym.evaluation.statistics.estimate import Comparison, Estimate, Outcomes, check_level, no_data, task_means
from agentgym.evaluation.statistics.permutation import sign_flip_test, sign_test
from agentgym.evaluation.statistics.proportion import wilson


def paired(
    before: Outcomes, after: Outcomes, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Comparison:
    """Compare two agents on the same tasks, entry by entry.

    The interval is the expanded percentile bootstrap over the tasks' differences. Where every task changed by the
    same amount the bootstrap has no width; then Wilson's interval bounds the share of tasks that change so, and the
    rest is taken at its worst, -1 or +1.
    Raises: EvaluationError if the lists differ in length, or a task has no sample on either side.
    Source: see mean_interval, sign_test and sign_flip_test.
    """
    check_level(level)
    if len(before) != len(after):
        raise EvaluationError(f"{len(before)} tasks before and {len(after)} after: pairs need the same tasks.")
    delta = task_means(after) - task_means(before)
    delta[np.abs(delta) < 1e-12] = 0.0  # 0.1 + 0.2 and 0.3 are the same score
    better, worse = int((delta > 0).sum()), int((delta < 0).sum())
    if delta.size == 0:
        return Comparison(no_data(level, "paired bootstrap"), 0, 0, 0, 1.0)
    if float(np.ptp(delta)) == 0.0:
        mean = float(delta.mean())
        alike = wilson(delta.size, delta.size, level=level).low
        low, high = max(-1.0, mean * alike - (1 - alike)), min(1.0, mean * alike + (1 - alike))
        difference = Estimate(mean, low, high, delta.size, level, "wilson, worst case")
    else:
        difference = mean_interval(delta, level=level, resamples=resamples, seed=seed, method="paired bootstrap")
    same = delta.size - better - worse
    return Comparison(difference, better, worse, same, sign_test(better, worse), sign_flip_test(delta, seed=seed))
