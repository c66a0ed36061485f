"""Turn-GAE: generalised advantages of a critic that predicts the return before each turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.credit.arithmetic import Truncated, turn_advantages, values_before, whitened
from agentgym.credit.contract import BiasClass, define_estimator
from agentgym.credit.group import Group
from agentgym.credit.options import Scale
from agentgym.credit.signals import Array
from agentgym.number_types import Positive, Share, Weight


def _bias(options: Mapping[str, Any]) -> BiasClass:
    exact = {"gamma": 1, "lam": 1, "truncated": "scored", "scale": "none"}
    return "unbiased" if all(options[name] == value for name, value in exact.items()) else "biased"


@define_estimator(
    requires=("outcomes", "values"),
    bias=_bias,
    source="Schulman et al. 2016, arXiv:1506.02438, with the turn as the step: MT-PPO, arXiv:2505.11821 v2, and "
    "Turn-PPO, arXiv:2512.17008",
    minimum_group=1,
    zero_if_equal=False,
)
def turn_gae(
    group: Group,
    *,
    gamma: Share = 1.0,
    lam: Share = 1.0,
    truncated: Truncated = "scored",
    scale: Scale = "none",
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_k = d_k + gamma lam A_k+1, d_k = r_k + gamma V_k+1 - V_k; the last turn's reward holds the outcome.

    Unbiased for lam 1 and gamma 1 with any critic, since V_k does not depend on turn k. With lam below 1 a
    wrong critic adds bias, an exact critic gives the least noise. Trajectories are not compared, so a group of one
    works. The critic's target is A_k + V_k.

    Args:
        gamma, lam: decay per turn.
        truncated: what follows the last turn of a truncated episode; "bootstrap" needs K_i + 1 values.
        scale: "std" subtracts the mean of all turns of the group and divides by their standard
            deviation, with the same weight for each trajectory (biased).
        outcome_weight: above 0.
    Returns: [N, T], reward units; in standard deviations for "std".
    Raises: CreditError naming trajectory and turn where a value is missing.
    """
    values = group.signal("values")[:, : group.turn_mask.shape[1]]
    advantages = turn_advantages(
        group,
        values_before(group, "values", values),
        gamma=gamma,
        lam=lam,
        truncated=truncated,
        outcome_weight=outcome_weight,
        turn_weight=turn_weight,
    )
    return advantages if scale == "none" else whitened([advantages], [group], weigh="trajectories")[0]
