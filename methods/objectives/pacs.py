"""PACS: treat the policy as a classifier, with the verdict on an episode as its label."""

from __future__ import annotations

from typing import Literal

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from agentgym.options import Positive
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss


@define_loss(LossRequirements(advantages=False, group_outcomes=True, whole_groups=True))
def pacs(
    tokens: TokenBatch,
    *,
    beta: Positive = 1.0,
    score: Literal["ratio", "likelihood"] = "ratio",
    balance: bool = False,
) -> torch.Tensor:
    """Cross-entropy of success; its logit is s_i - mean s of the group's others, s = beta x log pi/mu of an episode.

    In a group whose episodes share one label, the logits are pulled to 0 until the policy has moved equally on all.
    Episodes that the infrastructure failed or that have no verdict are ignored, in this mean too. With fewer than two
    usable episodes in a group the loss is 0.

    Args:
        score: "likelihood" uses beta x the mean of log pi over the episode's own tokens instead.
        balance: give a group's successes and failures the same total weight, n / (2 x their number) each.

    Source: Li et al. 2025, arXiv:2509.02522; both options, and the mean over all episodes of a batch, as in the
    authors' code (pacs_core_algos.py).
    """
    labels, judged = tokens.successes.nan_to_num(0.0), ~tokens.successes.isnan()
    if score == "ratio":
        scores = beta * tokens.row_log_ratios()
    else:
        scores = beta * (tokens.logps * tokens.own).sum(1) / tokens.own.sum(1).clamp(min=1)
    scores = scores * judged
    count = judged.sum()
    if count < 2:
        return scores * 0.0
    logits = scores - (scores.sum() - scores) / (count - 1)
    weights = torch.ones_like(logits)
    positives = (labels * judged).sum()
    if balance and 0 < positives < count:
        weights = count / 2 * (labels / positives + (1 - labels) / (count - positives))
    return binary_cross_entropy_with_logits(logits, labels, weights, reduction="none") * judged
