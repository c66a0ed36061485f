"""Play more episodes of each task than are trained on, and train on those whose returns differ most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from agentgym import Trajectory
from agentgym.options import Count, WholeNumber
from agentgym.training.gatherers import GatheredGroup, Gatherer, StepRequest


def max_variance(inner: Gatherer, *, factor: Count = 2, final_factor: WholeNumber = 0) -> Gatherer:
    """Plays `factor` times as many episodes of each task, and trains on those whose returns have the greatest variance.

    Sampling costs less than training, so a step learns more in the same time. The choice looks at the returns, so the
    expected gradient is no longer that of the policy's success: the bias class of the estimator does not hold.

    Args:
        factor: how many times the group is played.
        final_factor: the factor at the end of the training, approached evenly; 0 keeps `factor` constant.
    Source: PODS, Xu et al. 2025, arXiv:2504.13818: a mix of lowest and highest returns has the greatest variance.
    """

    def gather(step: StepRequest) -> list[GatheredGroup]:
        done = (step.progress or 0.0) if final_factor else 0.0
        times = factor + (final_factor - factor) * done
        groups = inner(replace(step, group_size=round(times * step.group_size)))
        return [_chosen(group, step.group_size) for group in groups]

    return gather


def _chosen(group: GatheredGroup, count: int) -> GatheredGroup:
    """Return the group with `count` of its episodes marked for training, in the order in which they were played."""
    valid = [row for row, t in enumerate(group.trained) if t.valid]
    failed = [row for row, t in enumerate(group.trained) if not t.valid]
    returns = [group.trained[row].return_from() for row in valid]
    rows = {valid[position] for position in greatest_variance(returns, count)}
    rows |= set(failed[: count - len(rows)])

    def episodes(trained: bool) -> list[Trajectory]:
        return [t for row, t in enumerate(group.trained) if (row in rows) == trained]

    return GatheredGroup(episodes(True), [*episodes(False), *group.left_out])


def greatest_variance(returns: Sequence[float], count: int) -> list[int]:
    """Return the positions of `count` returns whose variance is greatest; of several such choices, the one that takes
    most evenly from low and high returns.
    """
    order: list[int] = np.argsort(returns, kind="stable").tolist()
    if len(order) <= count:
        return order
    lows = sorted(range(count + 1), key=lambda low: abs(2 * low - count))
    choices = [order[:low] + order[len(order) - (count - low) :] for low in lows]
    return max(choices, key=lambda positions: round(float(np.var([returns[position] for position in positions])), 12))
