"""ArCHer: the critic's own word: what it predicts once the turn is known, above what it predicted before."""

from __future__ import annotations

from agentgym.credit.contract import define_estimator
from agentgym.credit.critics import values_before
from agentgym.credit.group import Group
from agentgym.credit.signals import Array


@define_estimator(
    requires=("values", "action_values"),
    bias="biased",
    source="Zhou et al. 2024, arXiv:2402.19446",
    minimum_group=1,
    zero_if_equal=False,
)
def archer(group: Group) -> Array:
    """A_ik = Q(s_ik, a_ik) - V(s_ik), each the lesser of two heads in the paper: that is the critic's affair.

    Every token of the turn gets it. Biased by as much as Q is wrong, however many trajectories there are; exact
    where Q is. The outcome is not looked at: it has taught the critic.

    Returns: [N, T], reward units. Trajectories are not compared: a group of one is as good as any.
    Raises: CreditError naming trajectory and turn where a value is missing.
    """
    values = group.signal("values")[:, : group.turn_mask.shape[1]]
    action_values = values_before(group, "action_values", group.signal("action_values"))
    return action_values - values_before(group, "values", values)
