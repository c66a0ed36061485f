"""AgentRL: GRPO's advantages, whitened over all groups of the batch that have the same environment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.credit import Array, Ddof, Group, arithmetic, define_estimator
from agentgym.options import Weight

from .bias_classes import direction_by_trajectories


@define_estimator(
    requires=("outcomes",),
    bias=direction_by_trajectories,
    source="arXiv:2510.04206, task advantage normalisation; over tokens there, trajectories as the unit: our own",
    scope="batch",
    by_turn=False,
)
def agentrl(
    groups: Sequence[Group],
    *,
    ddof: Ddof = 1,
    weigh: arithmetic.Weigh = "trajectories",
    outcome_weight: Weight = 1.0,
    turn_weight: Weight = 1.0,
) -> list[Array]:
    """A_ik = (B_i - mean B) / (std B + 1e-6), B the GRPO advantage, mean and std over groups of one environment.

    So all environments have the same weight in a batch, also those whose episodes are longer, or whose groups more
    often have equal returns. Keeps the direction, as `grpo` does. With weigh "tokens" (as published, needs `lengths`)
    or "turns" it is biased: the length of a trajectory enters the mean.

    Args:
        ddof: delta degrees of freedom of the group's standard deviation.
        weigh: weights in the environment's mean and standard deviation.
    Returns: [N, T] for each group. Degenerate: if all advantages of an environment are equal, exactly 0.
    """
    advantages: list[Array] = [np.zeros(0)] * len(groups)
    for environment in dict.fromkeys(group.environment for group in groups):
        positions = [n for n, group in enumerate(groups) if group.environment == environment]
        members = [groups[n] for n in positions]
        compared = [
            arithmetic.broadcast_to_turns(
                group,
                arithmetic.standardised(
                    arithmetic.episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight),
                    baseline="mean",
                    ddof=ddof,
                ),
            )
            for group in members
        ]
        for n, scores in zip(positions, arithmetic.whitened(compared, members, weigh=weigh), strict=True):
            advantages[n] = scores
    return advantages
