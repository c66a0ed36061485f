"""ArCHer: the value that a critic gives to the turn, minus its value of the state before the turn."""

from __future__ import annotations

from agentgym.credit import Array, Group, arithmetic, define_estimator
from agentgym.options import Share


@define_estimator(
    requires=("values", "action_values"),
    bias="biased",
    source="Zhou et al. 2024, arXiv:2402.19446",
    minimum_group=1,
    zero_if_equal=False,
)
def archer(group: Group, *, gamma: Share = 1.0) -> Array:
    """A_ik = Q(s_ik, a_ik) - V(s_ik). The critic predicts both; in the paper, each is the lower of two heads.

    Every token of the turn gets this advantage. Its bias is the error of Q, whatever the group's size. The outcome is
    not used here, because the critic has learnt from it.

    Args:
        gamma: the discount per turn of the returns that the critic learns.
    Returns: [N, T], reward units. Trajectories are not compared, so a group of one works.
    Raises: CreditError naming the trajectory and turn of a missing value.
    """
    values = group.signal("values")[:, : group.turn_mask.shape[1]]
    action_values = arithmetic.values_before(group, "action_values", group.signal("action_values"))
    return action_values - arithmetic.values_before(group, "values", values)
