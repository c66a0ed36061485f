"""Off-policy weights: each turn is weighted by its probability ratio, and dropped if it is too old."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from agentgym.credit.contract import BiasClass
from agentgym.credit.group import Group
from agentgym.credit.signals import Array
from agentgym.credit.wrappers.contract import Estimate, Options, define_wrapper
from agentgym.number_types import Positive, Weight, WholeNumber

Mode = Literal["tis", "mis", "icepop", "none"]
Level = Literal["turn", "token", "sequence"]
Over = Literal["sum", "mean"]
MAX_LOG_RATIO = 700.0  # exp overflows above this; every such ratio is above every cap


def _requires(options: Options) -> tuple[str, ...]:
    weighed = () if options["mode"] == "none" else ("log_ratios",)
    return weighed if options["max_lag"] is None else (*weighed, "versions")


def _bias(base: BiasClass, options: Options) -> BiasClass:
    return "heuristic" if base == "heuristic" else "biased"


@define_wrapper(
    source="TIS: Yao et al. 2025 (off-policy RL with a different rollout engine); MIS: masked importance sampling in "
    "verl; IcePop: Ling team 2025; one ratio per turn, and the cut by version: our own",
    requires=_requires,
    bias=_bias,
)
def off_policy(
    estimate: Estimate,
    groups: Sequence[Group],
    *,
    mode: Mode = "tis",
    level: Level = "turn",
    over: Over = "mean",
    high: Positive = 2.0,
    low: Weight = 0.5,
    max_lag: WholeNumber | None = None,
) -> list[Array]:
    """A_ik * w_ik, w the clipped ratio of pi_train to pi_rollout on the tokens of turn k, see `ratio_weights`.

    On-policy every ratio is 1 and nothing changes, bit for bit. Off-policy, the uncapped ratio of the
    sequence corrects exactly, but its noise grows with length. One ratio per turn is far less noisy, but ignores
    which states the old policy visited and what it did later. Caps add bias too, hence the bias class.

    By default the ratio of a turn is the geometric mean of its tokens' ratios. Engines that compute the same weights
    differently disagree a little about every token, mostly to one side; over hundreds of tokens the product of these
    ratios vanishes, although the policies are equal. The geometric mean adds bias: it takes a root of the ratio.

    Args:
        mode, level, over, high, low: see `ratio_weights`. At level "token" a turn gets the mean of its tokens'
            weights; a trainer that weighs each token calls `ratio_weights` itself. Mode "none" weighs
            nothing: use it with an objective that has its own correction, such as `decoupled_ppo`.
        max_lag: turns sampled by weights more than this many versions older than the trained ones get 0,
            and only those turns. The trained version is the group's `train_version`, or else the newest
            that sampled any of its turns.
    Returns: as the wrapped estimator.
    """
    weighted = []
    for group, advantages in zip(groups, estimate(groups), strict=True):
        if mode != "none":
            weights = ratio_weights(group.signal("log_ratios"), mode=mode, level=level, over=over, high=high, low=low)
            advantages = advantages * mean_turn_weights(weights, group.signal("log_ratios"))
        if max_lag is not None:
            versions = np.where(group.turn_mask, group.signal("versions"), 0.0)
            trained = versions.max(initial=0.0) if group.train_version is None else group.train_version
            advantages = np.where(trained - versions > max_lag, 0.0, advantages)
        weighted.append(advantages)
    return weighted


def ratio_weights(
    log_ratios: Array, *, mode: Mode, level: Level, over: Over = "sum", high: float = 2.0, low: float = 0.5
) -> Array:
    """[N, T, L] the weight of each of a turn's own tokens; 1 where padding.

    Args:
        log_ratios: [N, T, L] log pi_train - log pi_rollout per token, NaN after the last of a turn.
        mode: "tis" caps the ratio at `high`; "mis" drops ratios above `high`; "icepop" drops ratios
            above `high` or below `low`.
        level: the tokens of one ratio: each token, the turn's tokens, or all tokens of the trajectory.
        over: how the ratios of several tokens become one: by their product ("sum" of logs) or their geometric "mean".
        high, low: bounds of the ratio, not of its log.
    """
    known = ~np.isnan(log_ratios)
    logs: Array = np.where(known, log_ratios, 0.0)
    if level != "token":
        axes = (2,) if level == "turn" else (1, 2)
        count = known.sum(axis=axes, keepdims=True)
        total = logs.sum(axis=axes, keepdims=True)
        logs = np.broadcast_to(total / np.maximum(count, 1) if over == "mean" else total, logs.shape)
    ratios = np.exp(np.minimum(logs, MAX_LOG_RATIO))
    ratios = np.minimum(ratios, high) if mode == "tis" else np.where(ratios <= high, ratios, 0.0)
    if mode == "icepop":
        ratios = np.where(ratios >= low, ratios, 0.0)
    return np.where(known, ratios, 1.0)


def mean_turn_weights(weights: Array, log_ratios: Array) -> Array:
    """[N, T] mean of [N, T, L] weights over each turn's own tokens; 1 for a turn without any."""
    known = ~np.isnan(log_ratios)
    count = known.sum(axis=2)
    own_weights = np.where(known, weights, np.nan)
    least = np.nanmin(own_weights, axis=2, initial=math.inf)
    least = np.where(count > 0, least, 1.0)  # equal weights have this mean exactly
    above = np.where(known, weights - least[:, :, None], 0.0).sum(axis=2)
    weighted: Array = least + above / np.maximum(count, 1)
    return weighted
