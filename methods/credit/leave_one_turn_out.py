"""Leave one turn out: the outcome's advantage, and how much less the return is without each turn."""

from __future__ import annotations

from typing import Literal

from agentgym.credit import Array, Group, Scale, define_estimator
from agentgym.options import Positive, Weight

from .counterfactual import leave_one_out_values, turn_credit
from .shaping import add_turn_credit


@define_estimator(
    requires=("outcomes", "counterfactuals"),
    bias="heuristic",
    source="counterfactual replay, one turn at a time; how it joins the outcome: our own",
    minimum_group=1,
    zero_if_equal=False,
)
def leave_one_turn_out(
    group: Group,
    *,
    credit: Literal["added", "returned"] = "added",
    credit_weight: Weight = 1.0,
    scale: Scale = "none",
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """phi_k = v(all turns) - v(all but k), joined to the outcome as in `shaping.add_turn_credit`.

    Not claimed to be unbiased: a replay without turn k also depends on the later turns. If either of two turns
    suffices, both get 0; `shapley` divides the credit between them.

    Args:
        credit: "added": A_ik = A_i + credit_weight * (phi_k - mean of phi over the trajectory's turns);
            "returned": `return_to_go` with phi_k as the turn's reward, and the rest of the return on the last turn.
        scale: of A_i; "none" as in `rloo`, "std" as in `grpo`.
        outcome_weight, turn_weight: as in `rloo`.
    Returns: [N, T], reward units for scale "none". credit_weight 0 with credit "added" is `rloo`, bit for bit.
    Degenerate: a group of one or of equal trajectories keeps phi - mean phi, a comparison within the trajectory.
    Raises: MissingSignalError naming the trajectory and the set of turns without a value.
    """
    phi = turn_credit(group, lambda values, turns: leave_one_out_values(values.__getitem__, turns))
    return add_turn_credit(group, phi, credit, credit_weight, scale, outcome_weight, turn_weight)
