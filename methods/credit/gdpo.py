"""GDPO: standardise each reward component within the group, sum the components, and whiten over the batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.credit import Array, Ddof, Group, arithmetic, define_estimator
from agentgym.options import Weight


@define_estimator(
    requires=("outcome_components",),
    bias="biased",
    source="arXiv:2601.05242; trajectories as the unit of the whitening: our own",
    scope="batch",
    by_turn=False,
)
def gdpo(
    groups: Sequence[Group],
    *,
    ddof: Ddof = 1,
    turn_weight: Weight = 1.0,
    weigh: arithmetic.Weigh = "trajectories",
) -> list[Array]:
    """A_ik = sum_c w_c (R^c_i - mean_j R^c_j) / std_j R^c_j, whitened over the batch; the same for every turn.

    R^c is an outcome component, or the sum of a turn component over the episode (missing counts as 0). So the scale of
    a component does not matter, and a component that is constant in the group adds nothing. Biased: it does not
    maximise the sum of rewards, and it divides by the group's own standard deviations.

    Args:
        ddof: delta degrees of freedom of the group's standard deviations.
        turn_weight: weight of all turn components; with 0 only the outcome components count.
        weigh: weights in the whitening. The weights w_c are the group's `weights`, 1 by default.
    Returns: [N, T] for each group, in standard deviations of the batch. Degenerate: equal scores give exactly 0.
    """
    summed = []
    for group in groups:
        total = np.zeros(group.size)
        weights = group.weights or {}
        for name, outcome in group.signal("outcome_components").items():
            total += weights.get(name, 1.0) * _in_deviations(outcome, ddof)
        for name, rewards in (group.components or {}).items():
            earned = np.nan_to_num(rewards).sum(axis=1)
            total += turn_weight * weights.get(name, 1.0) * _in_deviations(earned, ddof)
        summed.append(arithmetic.broadcast_to_turns(group, total))
    return arithmetic.whitened(summed, groups, weigh=weigh)


def _in_deviations(scores: Array, ddof: int) -> Array:
    """Return [N] the scores minus their mean, in standard deviations; 0 if the scores are equal.

    No epsilon is added to the standard deviation. With one, two opposite components would leave a tiny remainder, which
    the whitening would amplify.
    """
    std = arithmetic.stable_std(scores, ddof=ddof)
    return np.divide(arithmetic.centred(scores, "mean"), std, out=np.zeros(len(scores)), where=std > 0)
