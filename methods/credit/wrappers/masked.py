"""Masking: exclude trajectories that ended in certain ways, or have unusable turns, from training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agentgym import StopReason
from agentgym.credit import Array, BiasClass, Group
from agentgym.credit.wrappers import Estimate, define_wrapper

OVERLONG = (StopReason.MAX_TOKENS, StopReason.CONTEXT_FULL, StopReason.TIME)


def _requires(options: Mapping[str, Any]) -> tuple[str, ...]:
    by_ending = options["over_turn"] or options["overlong"] or options["hopeless"]
    needs = ("stop_reasons",) if by_ending else ()
    return (*needs, "stop_reasons", "tool_turn") if options["void_turn"] else needs


def _bias(base: BiasClass, options: Mapping[str, Any]) -> BiasClass:
    any_mask = options["over_turn"] or options["overlong"] or options["void_turn"] or options["hopeless"]
    return "biased" if any_mask and base != "heuristic" else base


@define_wrapper(
    source="over-turn: Mini-o3, arXiv:2509.07969; void turns: SimpleTIR, arXiv:2509.02479; overlong: DAPO, "
    "arXiv:2503.14476",
    requires=_requires,
    bias=_bias,
)
def masked(
    estimate: Estimate,
    groups: Sequence[Group],
    *,
    over_turn: bool = False,
    void_turn: bool = False,
    overlong: bool = False,
    hopeless: bool = False,
    statistics: Literal["kept", "dropped"] = "kept",
) -> list[Array]:
    """The wrapped estimator's advantages, and 0 for the trajectories that are masked.

    Biased: whether a trajectory is masked depends on what it did, so behaviour that leads to masking is neither
    rewarded nor punished. This is intended: long attempts are not punished for hitting a limit.

    Args:
        over_turn: mask trajectories that were stopped by the turn limit.
        void_turn: mask trajectories with a turn that holds neither a valid call nor the final answer.
        overlong: mask trajectories that were stopped by tokens, context or time.
        hopeless: mask trajectories that a stop rule ended early.
        statistics: "kept" leaves masked trajectories in the baselines of the others; "dropped" removes them from the
            baselines too.
    Returns: as the wrapped estimator; exactly its advantages if nothing is masked and no option is set.
    """
    hidden = [_hidden(group, over_turn, void_turn, overlong, hopeless) for group in groups]
    if statistics == "dropped":
        return estimate([replace(group, valid=~is_hidden) for group, is_hidden in zip(groups, hidden, strict=True)])
    return [
        np.where(is_hidden[:, None], 0.0, advantages)
        for is_hidden, advantages in zip(hidden, estimate(groups), strict=True)
    ]


def _hidden(group: Group, over_turn: bool, void_turn: bool, overlong: bool, hopeless: bool) -> NDArray[np.bool_]:
    hidden = np.zeros(group.size, np.bool_)
    reasons = group.stop_reasons or (None,) * group.size
    if over_turn:
        hidden |= [reason == StopReason.MAX_TURNS for reason in reasons]
    if overlong:
        hidden |= [reason in OVERLONG for reason in reasons]
    if hopeless:
        hidden |= [reason == StopReason.HOPELESS for reason in reasons]
    if void_turn:
        answered = np.array([reason == StopReason.ANSWERED for reason in reasons], np.bool_)
        answer = group.last_turn & answered[:, None]
        hidden |= (group.turn_mask & ~group.signal("tool_turn") & ~answer).any(axis=1)
    return hidden
