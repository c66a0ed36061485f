"""Dr. GRPO: the episode's return minus the group's mean, on every turn, without division by a standard deviation."""

from __future__ import annotations

from agentgym.credit.arithmetic import broadcast_to_turns, centred, episode_returns
from agentgym.credit.contract import define_estimator
from agentgym.credit.group import Group
from agentgym.credit.signals import Array
from agentgym.number_types import Weight


@define_estimator(requires=("outcomes",), bias="direction", source="Liu et al. 2025, arXiv:2503.20783", by_turn=False)
def dr_grpo(group: Group, *, outcome_weight: Weight = 1.0, turn_weight: Weight = 1.0) -> Array:
    """A_ik = R_i - mean_j R_j, the same for every turn k.

    Direction: exactly (1 - 1/N) of the policy gradient, because a trajectory is part of its own mean.
    The paper also normalises the loss by a constant instead of the length; that is the trainer's task.

    Args:
        outcome_weight, turn_weight: R_i = outcome_weight * o_i + turn_weight * sum of turn rewards.
    Returns: [N, T], reward units. Sums to 0 over trajectories. Degenerate: equal returns give exactly 0.
    """
    returns = episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    return broadcast_to_turns(group, centred(returns, "mean"))
