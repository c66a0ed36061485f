"""GiGPO: the episode's advantage, plus a comparison of each turn with the other turns made in the same state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from agentgym.credit import Array, Baseline, BiasClass, Ddof, Group, Scale, arithmetic, define_estimator
from agentgym.options import Positive, Share, Weight

Alone = Literal["zero", "group"]


def _bias(options: Mapping[str, Any]) -> BiasClass:
    exact = {"baseline": "loo", "scale": "none", "gamma": 1, "alone": "group"}
    return "direction" if all(options[name] == value for name, value in exact.items()) else "biased"


@define_estimator(
    requires=("outcomes", "state_keys"),
    bias=_bias,
    source="Feng et al. 2025, arXiv:2505.10978; leave-one-out, and the group for a state of one: our own",
    zero_if_equal=False,
)
def gigpo(
    group: Group,
    *,
    gamma: Share = 0.95,
    step_weight: Weight = 1.0,
    baseline: Baseline = "mean",
    scale: Scale = "std",
    alone: Alone = "zero",
    statistics: Literal["trajectories", "steps"] = "trajectories",
    ddof: Ddof = 1,
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = n(R_i) + step_weight * n_s(G_ik); n_s compares the turns that were made in the same state s_ik.

    Biased as published: a trajectory that was in a state twice is compared with itself, and a turn whose state no other
    turn shares gets 0, as if its own return were its baseline. With baseline "loo", scale "none", gamma 1 and alone
    "group" all baselines come from other trajectories: then the class is "direction": the expected gradient is exactly
    (1 + step_weight) times the true one.

    Args:
        gamma: decay per turn of G, 0.95 as published.
        step_weight: omega of the paper.
        baseline: "loo" compares with the turns of *other* trajectories in that state.
        scale: "std" divides by the standard deviation over the group, and over the state.
        alone: n_s of a turn if no other turn (with "loo": no other trajectory) was in its state: "zero" is 0, which
            leaves n(R_i); "group" compares its G with the group's returns.
        statistics: what counts once in the mean and standard deviation of n(R_i): "trajectories", or their turns
            ("steps"), so that long trajectories weigh more, as in the authors' code (verl-agent) and ROLL.
        ddof: the ddof of the standard deviations.
        outcome_weight: above 0.
    Returns: [N, T]. Degenerate: if every state occurs once, and with alone "zero", exactly n(R_i) is left.
    """
    returns = arithmetic.episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    if statistics == "trajectories":
        episode = arithmetic.broadcast_to_turns(
            group, arithmetic.normalise_columns(returns, group.valid, baseline=baseline, scale=scale, ddof=ddof)
        )
    else:
        episode = _compared_over_steps(group, returns, baseline, scale, ddof)
    turn_returns = arithmetic.returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
    step = np.zeros(turn_returns.shape)
    step[group.turn_mask] = _compared_in_state(group, turn_returns, returns, baseline, scale, alone, ddof)
    return episode + step_weight * step


def _compared_over_steps(group: Group, returns: Array, baseline: Baseline, scale: Scale, ddof: int) -> Array:
    """Return [N, T] n(R_i), the normalised return of each trajectory, repeated on its turns.

    The mean and the standard deviation are taken over all turns of the group.
    """
    turns = arithmetic.group_by_label(tuple((0,) * int(count) for count in group.turns))
    of_turns = returns[turns.trajectory_index]
    above = np.nan_to_num(turns.centred(of_turns, baseline))
    compared = np.zeros(group.turn_mask.shape)
    compared[group.turn_mask] = (
        above if scale == "none" else arithmetic.divide_by_std(above, turns.stable_std(of_turns, ddof=ddof))
    )
    return compared


def _compared_in_state(
    group: Group, turn_returns: Array, returns: Array, baseline: Baseline, scale: Scale, alone: Alone, ddof: int
) -> Array:
    """Return [S] n_s(G) of all S turns of the group: the return of each, compared with the turns in the same state."""
    states = arithmetic.group_by_label(group.signal("state_keys"))
    flat = turn_returns[group.turn_mask]
    singleton = states.count(baseline) <= (baseline == "mean")
    fallback = (
        np.zeros(len(flat))
        if alone == "zero"
        else flat - arithmetic.baseline_of(returns, baseline)[states.trajectory_index]
    )
    above = np.where(singleton, fallback, states.centred(flat, baseline))
    if scale == "none":
        return above
    return arithmetic.divide_by_std(
        above, np.where(singleton, arithmetic.stable_std(returns, ddof=ddof), states.stable_std(flat, ddof=ddof))
    )
