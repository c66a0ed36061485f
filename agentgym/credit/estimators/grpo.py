"""GRPO: the episode's return, standardised over the group, on every turn."""

from __future__ import annotations

from agentgym.credit.arithmetic import broadcast_to_turns, episode_returns, standardised
from agentgym.credit.contract import define_estimator
from agentgym.credit.group import Group
from agentgym.credit.options import Ddof
from agentgym.credit.signals import Array
from agentgym.number_types import Weight


@define_estimator(
    requires=("outcomes",),
    bias="direction",
    source="Shao et al. 2024, arXiv:2402.03300",
    by_turn=False,
)
def grpo(group: Group, *, ddof: Ddof = 1, outcome_weight: Weight = 1.0, turn_weight: Weight = 1.0) -> Array:
    """A_ik = (R_i - mean_j R_j) / (std_j R_j + 1e-6), the same for every turn k.

    Direction: a positive multiple of the policy gradient wherever returns take two values (solved or
    not). With graded returns, dividing by the group's own standard deviation can change the direction: a rare large
    return counts for less than its size, and in a group of two only the sign of the difference counts.

    Args:
        ddof: the ddof of the standard deviation; 1 divides by N - 1.
        outcome_weight, turn_weight: R_i = outcome_weight * o_i + turn_weight * sum of turn rewards;
            turn_weight 0 is outcome-only GRPO.
    Returns: [N, T], in standard deviations; |A| <= (N-1)/sqrt(N) for ddof 1, sqrt(N-1) for ddof 0.
    Degenerate: equal returns give exactly 0.
    """
    returns = episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    return broadcast_to_turns(group, standardised(returns, baseline="mean", ddof=ddof))
