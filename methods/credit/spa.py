"""SPA: return-to-go of rewards into which a progress estimator divides the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from agentgym.credit import Array, Baseline, BiasClass, Group, arithmetic, define_estimator
from agentgym.options import Positive, Share, Weight

GROUNDED = 0.5  # the paper's reward for a turn whose action could be executed


def _bias(options: Mapping[str, Any]) -> BiasClass:
    exact = options["baseline"] == "loo" and options["gamma"] == 1 and options["grounding_weight"] == 0
    return "unbiased" if exact and options["remainder"] == "last" else "biased"


@define_estimator(
    requires=("outcomes", "contributions"),
    bias=_bias,
    source="Wang et al. 2025, arXiv:2505.20732; giving the last turn what is left: our own",
)
def spa(
    group: Group,
    *,
    remainder: Literal["last", "none"] = "last",
    contribution_weight: Positive = 1.0,
    grounding_weight: Weight = 0.0,
    gamma: Share = 1.0,
    baseline: Baseline = "loo",
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """`return_to_go` with the outcome replaced by the contributions c_k of the turns, see `shared_outcome`.

    Unbiased if c_k was predicted from the turns up to k alone: then what was paid before turn k is known before turn k,
    so that it is a baseline. Contributions that were fitted to the outcome from the whole trajectory are biased, and so
    is an equal share o / K.

    Args:
        remainder: with "last" the last turn gets the rest, so that a trajectory gets its outcome; "none" (the paper)
            pays only the contributions, whatever they sum to.
        contribution_weight: weight of c. grounding_weight: weight of the 0.5 for each tool turn (the paper: 1), which
            changes the objective. With 0 `tool_turn` is not needed.
        gamma, baseline, outcome_weight, turn_weight: as in `return_to_go`.
    Returns: [N, T], reward units. Degenerate: contributions of 0 with remainder "last" give `return_to_go`.
    """
    outcomes: Array = outcome_weight * group.signal("outcomes")
    shares = shared_outcome(group, outcomes, contribution_weight, remainder)
    if grounding_weight:
        shares = shares + grounding_weight * GROUNDED * group.signal("tool_turn")
    rewards = turn_weight * arithmetic.rewards_or_zero(group) + shares
    paid = replace(group, turn_rewards=rewards, outcomes=np.zeros(group.size))
    return arithmetic.subtract_index_baseline(
        arithmetic.returns_to_go(paid, gamma=gamma), arithmetic.episode_returns(paid), group.turn_mask, baseline
    )


def shared_outcome(group: Group, outcomes: Array, weight: float, remainder: Literal["last", "none"]) -> Array:
    """Return [N, T] weight * c_k; with remainder "last" each trajectory's last turn gets the rest of its outcome.

    With "last" each row sums to the outcome, up to rounding. 0 for padding.
    """
    shares = weight * np.where(group.turn_mask, group.signal("contributions"), 0.0)
    if remainder == "none":
        return shares
    before = np.where(group.last_turn, 0.0, shares).sum(axis=1)
    shared: Array = np.where(group.last_turn, (outcomes - before)[:, None], shares)
    return shared
