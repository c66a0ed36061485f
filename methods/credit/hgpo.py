"""HGPO: compare every turn with turns of the same recent history, giving longer histories more weight."""

from __future__ import annotations

import numpy as np

from agentgym.credit import Array, Ddof, Group, Scale, arithmetic, define_estimator
from agentgym.options import Positive, Share, Weight, WholeNumber


@define_estimator(
    requires=("outcomes", "state_keys"),
    bias="biased",
    source="hierarchy-of-groups policy optimisation, ICLR 2026, after its released code; the weights are (h + 1)^alpha "
    "there, h^alpha in the paper",
    zero_if_equal=False,
)
def hgpo(
    group: Group,
    *,
    history: WholeNumber = 2,
    alpha: Weight = 1.0,
    gamma: Share = 0.95,
    scale: Scale = "std",
    ddof: Ddof = 0,
    episode: bool = False,
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = sum_h w_h n_h(G_ik) / sum_h w_h, w_h = h^alpha, over the levels h = 1 .. history + 1 at which n_h is not
    0.

    n_h compares turns of the group whose last h states, including the current one, are equal. Biased: a trajectory is
    compared with itself, and the returns decide which levels count.

    Args:
        history: states before the current one in the longest history.
        alpha: how strongly longer histories are weighted; 0 weights all equally.
        gamma: decay per turn. scale: "std" divides by the standard deviation at that level.
        ddof: delta degrees of freedom of this standard deviation.
        episode: add one more level, the episode's return compared over the group; weights are then (h + 1)^alpha
            with h = 0 for this level. Without it a turn whose state occurs once gets 0.
        outcome_weight: above 0.
    Returns: [N, T]. Degenerate: exactly 0 if returns do not differ at any level.
    """
    turn_returns = arithmetic.returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
    mask = group.turn_mask
    flat = turn_returns[mask]
    total, weights = np.zeros(len(flat)), np.zeros(len(flat))
    if episode:
        returns = arithmetic.episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
        level = arithmetic.normalise_columns(returns, group.valid, baseline="mean", scale=scale, ddof=ddof)
        total = arithmetic.broadcast_to_turns(group, level)[mask]
        weights = (total != 0).astype(np.float64)
    by_state = by_history = arithmetic.group_by_label(group.signal("state_keys"))
    for h in range(1, min(history + 1, int(group.turns.max())) + 1):
        by_history = by_state.after(by_history) if h > 1 else by_state
        level = by_history.centred(flat, "mean")
        if scale == "std":
            level = arithmetic.divide_by_std(level, by_history.stable_std(flat, ddof=ddof))
        weight = np.where(level != 0, (h + episode) ** alpha, 0.0)
        total = total + weight * level
        weights = weights + weight
    advantages = np.zeros(turn_returns.shape)
    advantages[mask] = np.divide(total, weights, out=np.zeros(len(flat)), where=weights > 0)
    return advantages
