"""Bi-level GAE: generalised advantage estimates over turns, then inside each turn over its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from agentgym.credit import Array, BiasClass, Group, arithmetic, define_estimator
from agentgym.options import Positive, Share, Weight

Boundary = Literal["first", "last"]


def _bias(options: Mapping[str, Any]) -> BiasClass:
    ones = all(options[name] == 1 for name in ("gamma", "lam", "token_gamma", "token_lam"))
    exact = ones and options["truncated"] == "scored" and options["boundary"] == "first"
    return "unbiased" if exact else "biased"


@define_estimator(
    requires=("outcomes", "token_values"),
    bias=_bias,
    source="RAGEN, Wang et al. 2025, arXiv:2504.20073, and its released code (boundary 'last')",
    minimum_group=1,
    zero_if_equal=False,
)
def bilevel_gae(
    group: Group,
    *,
    gamma: Share = 1.0,
    lam: Share = 1.0,
    token_gamma: Share = 1.0,
    token_lam: Share = 1.0,
    boundary: Boundary = "first",
    truncated: arithmetic.Truncated = "scored",
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """The advantage of each turn's first token: the value of the whole turn minus the value of the state before it.

    First, advantages of turns are computed as in `turn_gae`. Then, inside each turn, A_l = d_l + token_gamma token_lam
    A_l+1, where the last token's reward is the turn's return A_k + V_k. `token_advantages` returns all of them.
    Unbiased if all four decays are 1 and the boundary is "first"; with one token per turn it equals `turn_gae`.

    Args:
        gamma, lam: decay per turn. token_gamma, token_lam: decay per token inside a turn.
        boundary: the token whose value is taken as the turn's. "first" values the state before the turn; "last", as in
            the released code, already knows the turn's text (biased).
        truncated: see `turn_gae`; "bootstrap" needs `values`. outcome_weight: above 0.
    Returns: [N, T], reward units.
    Raises: CreditError naming the trajectory and turn without token values.
    """
    advantages = token_advantages(
        group,
        gamma=gamma,
        lam=lam,
        token_gamma=token_gamma,
        token_lam=token_lam,
        boundary=boundary,
        truncated=truncated,
        outcome_weight=outcome_weight,
        turn_weight=turn_weight,
    )
    return advantages[:, :, 0]


def token_advantages(
    group: Group,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    token_gamma: float = 1.0,
    token_lam: float = 1.0,
    boundary: Boundary = "first",
    truncated: arithmetic.Truncated = "scored",
    outcome_weight: float = 1.0,
    turn_weight: float = 1.0,
) -> Array:
    """Return [N, T, L] the advantage of every token, for trainers that use them; 0 after a turn's last token.

    Args and errors as for `bilevel_gae`.
    """
    values: Array = group.signal("token_values")
    if not values.shape[2]:
        values = np.full((*values.shape[:2], 1), np.nan)
    count = (~np.isnan(values)).sum(axis=2)
    at = np.zeros(count.shape, np.int64) if boundary == "first" else np.maximum(count - 1, 0)
    state_values = arithmetic.values_before(
        group, "token_values", np.take_along_axis(values, at[:, :, None], axis=2)[:, :, 0]
    )
    turns = arithmetic.turn_advantages(
        group,
        state_values,
        gamma=gamma,
        lam=lam,
        truncated=truncated,
        outcome_weight=outcome_weight,
        turn_weight=turn_weight,
    )
    td_errors = _td_errors(values, turns + state_values, token_gamma)
    return np.where(np.isnan(values), 0.0, arithmetic.discounted_sums(td_errors, token_gamma * token_lam))


def _td_errors(values: Array, returns: Array, token_gamma: float) -> Array:
    """Return [N, T, L] each token's temporal-difference error; the value after a turn's last token is its return."""
    following = np.full(values.shape, np.nan)
    following[:, :, :-1] = token_gamma * values[:, :, 1:]
    following = np.where(np.isnan(following), returns[:, :, None], following)
    return np.where(np.isnan(values), 0.0, following - values)
