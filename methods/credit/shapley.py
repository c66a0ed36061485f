"""Shapley credit: the outcome's advantage, and what each turn adds to the return, averaged over all orders of the
turns.
"""

from __future__ import annotations

from typing import Literal

from agentgym.credit import Array, Group, Scale, define_estimator
from agentgym.options import Positive, Weight

from .counterfactual import shapley_of_known, turn_credit
from .shaping import add_turn_credit


@define_estimator(
    requires=("outcomes", "counterfactuals"),
    bias="heuristic",
    source="Shapley 1953; for turns: arXiv:2505.20417 (SCAR) and arXiv:2602.08335 (SHARP), not confirmed against them",
    minimum_group=1,
    zero_if_equal=False,
)
def shapley(
    group: Group,
    *,
    credit: Literal["added", "returned"] = "added",
    credit_weight: Weight = 1.0,
    scale: Scale = "none",
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """phi_k is the Shapley value of turn k, joined to the outcome as in `shaping.add_turn_credit`.

    Exact if the values of all 2^K coalitions (sets of turns) are given, otherwise estimated from the given ones: see
    `counterfactual.shapley_of_known`. `counterfactual.sampled_shapley_values` chooses coalitions at random.
    Not claimed to be unbiased: the value of a turn depends on the turns after it.

    Args: as `leave_one_turn_out`.
    Returns: [N, T]. With all coalitions phi sums to v(all) - v(none), and a turn that changes nothing gets phi = 0.
    Degenerate: as `leave_one_turn_out`.
    Raises: CreditError naming a trajectory and a turn if no pair of values shows the turn's contribution.
    """
    phi = turn_credit(group, shapley_of_known)
    return add_turn_credit(group, phi, credit, credit_weight, scale, outcome_weight, turn_weight)
