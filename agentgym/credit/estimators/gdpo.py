"""GDPO: each component of the reward standardised by itself inside the group, summed, and whitened over the batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.credit.contract import define_estimator
from agentgym.credit.group import Group
from agentgym.credit.options import Ddof, Weight
from agentgym.credit.returns import broadcast_to_turns
from agentgym.credit.signals import Array
from agentgym.credit.statistics import centred, spread
from agentgym.credit.whitening import Weigh, whitened


@define_estimator(
    requires=("outcome_components",),
    bias="biased",
    source="arXiv:2601.05242; trajectories as the unit of the whitening: our own",
    scope="batch",
)
def gdpo(
    groups: Sequence[Group],
    *,
    ddof: Ddof = 1,
    turn_weight: Weight = 1.0,
    weigh: Weigh = "trajectories",
) -> list[Array]:
    """A_ik = whitened over the batch: sum_c w_c (R^c_i - mean_j R^c_j) / std_j R^c_j, on every turn.

    R^c is an outcome component, or the sum of a turn component over the episode (missing counts as 0). So no
    component drowns another by its scale, and one that does not differ adds nothing. Biased: it maximises something
    else than the sum of rewards, and divides by the group's own spreads.

    Args:
        ddof: of the spreads in the group. turn_weight: of all turn components; 0 leaves those of the outcome.
        weigh: what counts once in the whitening. The weights w_c are the group's `weights`, 1 by default.
    Returns: [N, T] for each group, in standard deviations of the batch. Degenerate: no difference gives exactly 0.
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
        summed.append(broadcast_to_turns(group, total))
    return whitened(summed, groups, weigh=weigh)


def _in_deviations(scores: Array, ddof: int) -> Array:
    """[N] above the mean in standard deviations; 0 where there is no spread.

    Nothing is added to the spread: two components that say the opposite would leave that, and whitening blow it up.
    """
    std = spread(scores, ddof=ddof)
    return np.divide(centred(scores, "mean"), std, out=np.zeros(len(scores)), where=std > 0)
