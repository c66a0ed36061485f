"""Gated accumulation: lower rewards count only if all higher ones reached their thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agentgym import CreditError
from agentgym.credit import Array, BiasClass, Group
from agentgym.credit.wrappers import Estimate, define_wrapper


def _requires(options: Mapping[str, Any]) -> tuple[str, ...]:
    return ("outcomes",) if not options["levels"] else ("outcomes", "components", "outcome_components")


def _bias(base: BiasClass, options: Mapping[str, Any]) -> BiasClass:
    return base if options["paid"] == "end" or base == "heuristic" else "biased"


@define_wrapper(
    source="arXiv:2508.10548 (G-RA); paying at the end: our own", requires=_requires, bias=_bias, same_objective=False
)
def gated(
    estimate: Estimate,
    groups: Sequence[Group],
    *,
    threshold: float = 1.0,
    levels: Mapping[str, float] = {},
    paid: Literal["end", "turns"] = "end",
) -> list[Array]:
    """The wrapped estimator on gated rewards: a level's rewards count only if every higher level reached its threshold.

    Without `levels` there are two: the outcome, and below it the turn rewards. The objective is then the gated rewards,
    and for it the bias class of the wrapped estimator holds.

    Whether a gate opens is known only at the end of the episode. So by default the gated rewards are paid at the end,
    and a late turn that opens the gate gets credit for them. If they are paid on their own turns, estimators of the
    return from a turn on (`return_to_go`, `mt_grpo`) miss this credit and are biased; estimators of episode returns
    (`rloo`) are not.

    Args:
        threshold: the outcome at or above which turn rewards count.
        levels: names of reward components, the highest first, each with the threshold at or above which lower levels
            count. R = sum_h w_h r_h prod_{h' above h} 1[r_h' >= threshold_h'], w the group's weights. A turn component
            is compared by its sum over the episode. Components that are not named do not count.
        paid: "end" adds the gated turn rewards to the outcome; "turns" (the paper) leaves them on their turns.
    Returns: as the wrapped estimator. Degenerate: if no trajectory passes a gate, only the levels above it count.
    Raises: CreditError naming a level that is not a component.
    """
    gated_groups = [_by_level(group, levels) if levels else _by_outcome(group, threshold) for group in groups]
    return estimate([_paid_at_the_end(group) for group in gated_groups] if paid == "end" else gated_groups)


def _paid_at_the_end(group: Group) -> Group:
    if group.turn_rewards is None:
        return group
    total = np.nansum(group.turn_rewards, axis=1)
    return replace(group, outcomes=group.signal("outcomes") + total, turn_rewards=0.0 * group.turn_rewards)


def _by_outcome(group: Group, threshold: float) -> Group:
    if group.turn_rewards is None:
        return group
    return replace(group, turn_rewards=_open(group.turn_rewards, group.signal("outcomes") >= threshold))


def _by_level(group: Group, levels: Mapping[str, float]) -> Group:
    of_turns, of_outcome = group.signal("components"), group.signal("outcome_components")
    outcomes, rewards = np.zeros(group.size), np.full(group.turn_mask.shape, np.nan)
    passed = np.ones(group.size, np.bool_)
    for name, threshold in levels.items():
        weight = (group.weights or {}).get(name, 1.0)
        if name not in of_turns and name not in of_outcome:
            known = ", ".join([*of_outcome, *of_turns]) or "none"
            raise CreditError(
                f"The level {name!r} is not a component of this group's rewards. The components are: {known}."
            )
        reached = np.zeros(group.size)
        if name in of_outcome:
            reached = reached + of_outcome[name]
            outcomes += weight * np.where(passed, of_outcome[name], 0.0)
        if name in of_turns:
            reached = reached + np.nansum(of_turns[name], axis=1)
            paid = weight * _open(of_turns[name], passed)
            rewards = np.where(np.isnan(paid), rewards, np.nan_to_num(rewards) + paid)
        passed = passed & (reached >= threshold)
    return replace(group, outcomes=outcomes, turn_rewards=rewards)


def _open(rewards: Array, passed: NDArray[np.bool_]) -> Array:
    """Return [N, T] the rewards of trajectories that passed, 0 for the others; missing rewards stay missing."""
    return np.where(np.isnan(rewards) | passed[:, None], rewards, 0.0)
