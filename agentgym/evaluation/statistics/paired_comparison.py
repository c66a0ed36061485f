"""Two agents on the same tasks, task by task: what makes a task hard for both cancels."""

from __future__ import annotations

import numpy as np

from agentgym.errors import EvaluationError
from agentgym.evaluation.statistics.bootstrap import mean_interval
from agentgym.evaluation.statistics.estimate import Comparison, Outcomes, check_level, no_data, task_means
from agentgym.evaluation.statistics.permutation import sign_flip_test, sign_test
from agentgym.evaluation.statistics.score import FEW_TASKS, differing_tasks, score_interval


def paired(
    before: Outcomes, after: Outcomes, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Comparison:
    """Compare two agents on the same tasks, entry by entry.

    The interval is the expanded percentile bootstrap over the tasks' differences. Where at most ten of them differ
    from the commonest, as with few tasks or rare success, that is too narrow, and the score interval takes its place
    (Tango's, with one sample a task); benchmarks/intervals.py simulates how often both cover the truth.
    Raises: EvaluationError if the lists differ in length, or a task has no sample on either side.
    Source: see mean_interval, score_interval, sign_test and sign_flip_test.
    """
    check_level(level)
    if len(before) != len(after):
        raise EvaluationError(f"{len(before)} tasks before and {len(after)} after: pairs need the same tasks.")
    delta = task_means(after) - task_means(before)
    delta[np.abs(delta) < 1e-12] = 0.0  # 0.1 + 0.2 and 0.3 are the same score
    better, worse = int((delta > 0).sum()), int((delta < 0).sum())
    if delta.size == 0:
        return Comparison(no_data(level, "paired bootstrap"), 0, 0, 0, 1.0)
    bounded = all(0 <= value <= 1 for samples in (*before, *after) for value in samples)
    if bounded and differing_tasks(delta) <= FEW_TASKS:
        difference = score_interval(delta, -1.0, 1.0, level=level)
    else:
        difference = mean_interval(delta, level=level, resamples=resamples, seed=seed, method="paired bootstrap")
    same = delta.size - better - worse
    return Comparison(difference, better, worse, same, sign_test(better, worse), sign_flip_test(delta, seed=seed))
