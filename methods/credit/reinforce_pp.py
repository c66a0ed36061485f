"""REINFORCE++: returns-to-go, whitened over the whole batch."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.credit import Array, Group, arithmetic, define_estimator
from agentgym.options import Positive, Share, Weight


@define_estimator(
    requires=("outcomes",),
    bias="biased",
    source="Hu 2025, arXiv:2501.03262; trajectories as the unit of the statistics: our own",
    minimum_group=1,
    scope="batch",
    zero_if_equal=False,
)
def reinforce_pp(
    groups: Sequence[Group],
    *,
    gamma: Share = 1.0,
    weigh: arithmetic.Weigh = "trajectories",
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> list[Array]:
    """A_ik = (G_ik - mean G) / (std G + 1e-6), mean and std over every turn of every group of the batch.

    Trajectories of different tasks are compared, so easy tasks get high advantages. Biased: a turn's own return is part
    of mean and std; and late turns, after which less reward comes, get low advantages. In the paper the KL to a
    reference is part of the reward; here it is left to the trainer.

    Args:
        gamma: decay per turn of the return-to-go.
        weigh: weights in mean and std. "tokens" (needs `lengths`) is as published: a long trajectory has more weight,
            and its length depends on its actions.
        outcome_weight: above 0.
    Returns: [N, T] for each group, in standard deviations of the batch. Degenerate: equal returns give exactly 0.
    """
    turn_returns = [
        arithmetic.returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
        for group in groups
    ]
    return arithmetic.whitened(turn_returns, groups, weigh=weigh)
