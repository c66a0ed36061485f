"""RLOO: the episode's return minus the mean return of the other episodes, on every turn."""

from __future__ import annotations

from agentgym.credit.arithmetic import broadcast_to_turns, centred, episode_returns
from agentgym.credit.contract import define_estimator
from agentgym.credit.group import Group
from agentgym.credit.signals import Array
from agentgym.number_types import Weight


@define_estimator(
    requires=("outcomes",), bias="unbiased", source="Ahmadian et al. 2024, arXiv:2402.14740", by_turn=False
)
def rloo(group: Group, *, outcome_weight: Weight = 1.0, turn_weight: Weight = 1.0) -> Array:
    """A_ik = R_i - mean_{j != i} R_j, the same for every turn k.

    There is no option to divide by the others' standard deviation: for rewards 1, 0, 0, 0 it is 0, and the
    advantage of the one success would be a million.

    Args:
        outcome_weight, turn_weight: R_i = outcome_weight * o_i + turn_weight * sum of turn rewards.
    Returns: [N, T], reward units. Sums to 0 over trajectories. Degenerate: equal returns give exactly 0.
    """
    returns = episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    return broadcast_to_turns(group, centred(returns, "loo"))
