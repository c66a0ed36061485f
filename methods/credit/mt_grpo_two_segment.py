"""MT-GRPO as released: turn rewards count for the turns up to the tool call, the outcome for all turns."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit import Array, Baseline, Ddof, Group, Scale, arithmetic, define_estimator
from agentgym.options import Share, Weight


@define_estimator(
    requires=("outcomes", "turn_rewards", "tool_turn"),
    bias="biased",
    source="Zeng et al. 2025, arXiv:2505.11821 v1 and its released code, which divides by std + 1e-4; here 1e-6",
    caution="knows only two segments, before and after the tool's result: with more than two turns use 'mt_grpo'.",
)
def mt_grpo_two_segment(
    group: Group,
    *,
    combine: Literal["added", "cumulative"] = "added",
    alpha: Weight = 1.0,
    discount: Share = 1.0,
    boundary: Literal["last", "first"] = "last",
    baseline: Baseline = "mean",
    scale: Scale = "std",
    ddof: Ddof = 1,
) -> Array:
    """A_ik = n(o_i) + alpha * n(r_i) up to the turn that called the tool, n(o_i) after it; r_i sums the turn rewards.

    A trajectory that never called a tool gets n(r_i + o_i) on every turn. n compares over the whole group.
    Biased: what the trajectory did decides which of these three terms a turn gets, so even a choice without effect gets
    a gradient.

    Args:
        combine: "cumulative" gives n(r_i + discount * o_i) up to the turn that called the tool, and everywhere without
            a tool: the second estimator of the released code, `cae`; "added" is its `aae`.
        alpha: weight of the turn part in "added". discount: of the outcome in "cumulative".
        boundary: whether the first or the last tool turn ends the first segment. In the released setting there is at
            most one tool call, so both are the same.
        baseline, scale, ddof: n subtracts the baseline and, with "std", divides by the group's standard deviation.
    Returns: [N, T]. Degenerate: a constant term adds exactly 0.
    """

    def compared(scores: Array) -> Array:
        if scale == "std":
            return arithmetic.standardised(scores, baseline=baseline, ddof=ddof)
        return arithmetic.centred(scores, baseline)

    outcomes: Array = group.signal("outcomes")
    rewards = arithmetic.rewards_or_zero(group).sum(axis=1)
    used = group.signal("tool_turn") & group.turn_mask
    columns = np.arange(used.shape[1])
    last = np.where(used, columns, -1).max(axis=1)
    end = last if boundary == "last" else np.where(used, columns, used.shape[1]).min(axis=1)
    before = columns[None] <= end[:, None]
    after, without_tool = compared(outcomes)[:, None], compared(rewards + outcomes)[:, None]
    first = after + alpha * compared(rewards)[:, None]
    if combine == "cumulative":
        first = without_tool = compared(rewards + discount * outcomes)[:, None]
    return np.where((last >= 0)[:, None], np.where(before, first, after), without_tool)
