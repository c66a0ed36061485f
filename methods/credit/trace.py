"""TRACE: the outcome's advantage, and how much a tool turn and the turns after it reduced the gap to the right
answer.
"""

from __future__ import annotations

import numpy as np

from agentgym.credit import Array, Ddof, Group, Scale, arithmetic, define_estimator
from agentgym.options import Count, Positive, Share, Weight

from .shaping import above_others, forward_fill

SMALLEST_GAP = 1e-8


@define_estimator(
    requires=("outcomes", "gold_logprobs", "tool_turn"),
    bias="heuristic",
    source="arXiv:2607.13988, after a reproduction's code; which turns count as tool turns: our reading",
    minimum_group=1,
    zero_if_equal=False,
)
def trace(
    group: Group,
    *,
    window: Count = 3,
    gamma: Share = 0.8,
    gain_weight: Weight = 0.2,
    outcome_share: Weight = 1.0,
    scale: Scale = "std",
    ddof: Ddof = 1,
    outcome_weight: Positive = 1.0,
) -> Array:
    """A_ik = A_i + gain_weight * c_ik, with A_i the outcome's advantage over the group.

    g_k = -l_k is the gap to the gold answer before turn k, l_k its mean log-probability per token under a frozen
    reference; d_k = log(g_k / g_{k+1}) is how much of the gap turn k closed. c_k is the mean of d_k .. d_{k+W-1},
    weighted by gamma^0 .. gamma^(W-1) and cut at the last tool turn; a window that is cut adds outcome_share * A_i.
    Turns after the last tool turn, mainly the answer, get A_i.

    Args:
        window: W, in turns. gamma: decay per turn within the window. gain_weight: of c; 0 leaves only the outcome.
        outcome_share: the share of A_i that is added to the c of a window that is cut.
        scale, ddof: options of A_i; "std" as in `grpo`, "none" as in `rloo`.
    Returns: [N, T]. The d of all tool turns sum to log(g_first / g_after_the_last).
    Degenerate: without a tool turn, A_i alone; a gap is at least 1e-8; with equal outcomes c remains, so the result for
        a group of one, or of equal trajectories, is not 0.
    """
    outcomes: Array = outcome_weight * group.signal("outcomes")
    # a group of one trajectory has no others to compare with
    above = np.nan_to_num(above_others(outcomes, scale, ddof=ddof))
    columns = np.arange(group.turn_mask.shape[1])
    ends = np.where(group.signal("tool_turn"), columns + 1, 0).max(axis=1)[:, None]  # turns up to the last tool turn
    closed = np.where(columns < ends, gaps_closed(group), 0.0)
    total, weight = np.zeros(closed.shape), np.zeros(closed.shape)
    for ahead in range(min(window, closed.shape[1])):
        total[:, : closed.shape[1] - ahead] += gamma**ahead * closed[:, ahead:]
        weight += np.where(columns + ahead < ends, gamma**ahead, 0.0)
    credit = np.divide(total, weight, out=np.zeros(closed.shape), where=weight > 0)
    credit += np.where((columns < ends) & (columns + window >= ends), outcome_share * above[:, None], 0.0)
    return arithmetic.broadcast_to_turns(group, above) + gain_weight * credit


def gaps_closed(group: Group) -> Array:
    """Return [N, T] log(g_k / g_{k+1}) of every turn; if the answer was not scored, the last known gap is used."""
    gaps = np.maximum(-forward_fill(group.signal("gold_logprobs")), SMALLEST_GAP)
    return np.where(group.turn_mask, -np.diff(np.log(gaps), axis=1), 0.0)
