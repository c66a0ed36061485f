"""REINFORCE++-baseline: the episode's return above the group's mean, whitened over the whole batch."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.credit import Array, Baseline, Group, arithmetic, define_estimator
from agentgym.options import Weight

from .bias_classes import direction_by_trajectories


@define_estimator(
    requires=("outcomes",),
    bias=direction_by_trajectories,
    source="Hu 2025, arXiv:2501.03262, the variant with a group baseline; trajectories as the unit: our own",
    scope="batch",
    by_turn=False,
)
def reinforce_pp_baseline(
    groups: Sequence[Group],
    *,
    baseline: Baseline = "mean",
    weigh: arithmetic.Weigh = "trajectories",
    outcome_weight: Weight = 1.0,
    turn_weight: Weight = 1.0,
) -> list[Array]:
    """A_ik = (B_i - mean B) / (std B + 1e-6) with B_i = R_i - baseline of the own group; mean and std over the batch.

    Direction: if returns take two values and the batch is one group, the result is a positive multiple of the policy
    gradient, as for `grpo`. Over a large batch the std hardly depends on any one trajectory, so the same holds for
    graded returns. With weigh "tokens" or "turns" the mean of B depends on the trajectory's own length: biased.

    Args:
        baseline: of the group, "mean" as published. weigh: see `reinforce_pp`.
    Returns: [N, T] for each group, in standard deviations of the batch. Degenerate: equal returns give exactly 0.
    """
    above = [
        arithmetic.broadcast_to_turns(
            group,
            arithmetic.centred(
                arithmetic.episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight), baseline
            ),
        )
        for group in groups
    ]
    return arithmetic.whitened(above, groups, weigh=weigh)
