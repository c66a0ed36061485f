"""Calibration: weight each component of the turn rewards by its correlation with success."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agentgym.credit import Array, BiasClass, Group
from agentgym.credit.wrappers import Estimate, define_wrapper
from agentgym.options import Count, Share, Weight


def _bias(base: BiasClass, options: Mapping[str, Any]) -> BiasClass:
    return base if options["weights"] else "heuristic"


@define_wrapper(
    source="arXiv:2604.02869 (reward calibration), not confirmed against it",
    requires=("outcomes", "components"),
    bias=_bias,
    scope="batch",
    same_objective=False,
)
def calibrated(
    estimate: Estimate,
    groups: Sequence[Group],
    *,
    weights: Mapping[str, float] = {},
    strength: Weight = 1.0,
    least: Share = 0.1,
    minimum: Count = 30,
    success_at: float = 0.5,
) -> list[Array]:
    """The wrapped estimator with turn rewards sum_c weight_c * r^c, weight_c from `calibration` over the batch.

    A component that correlates with failure gets a negative weight. Not claimed to be unbiased, because the weights
    come from the same outcomes. Weights of an earlier window, given as `weights`, are constants: then the objective is
    another one, and for it the bias class of the wrapped estimator holds.

    Args:
        weights: weight of each component by name, for example `calibration(window).weights`; components without a
            weight do not count. If empty, the weights are computed from the batch itself.
        strength, least, minimum, success_at: see `calibration`.
    Returns: as the wrapped estimator. Degenerate: with too few successes or failures only the outcomes count.
    """
    estimated = calibration(groups, strength=strength, least=least, minimum=minimum, success_at=success_at)
    return estimate([_reweighted(group, weights or estimated.weights) for group in groups])


@dataclass(frozen=True, slots=True)
class Calibration:
    """Correlations of reward components with success.

    Attributes:
        correlations: point-biserial correlation of each component with success, in [-1, 1]; 0 if the component or
            success is constant.
        weights: the weights of each component.
        successes, failures: number of trajectories.
    """

    correlations: Mapping[str, float]
    weights: Mapping[str, float]
    successes: int
    failures: int


def calibration(
    groups: Sequence[Group],
    *,
    strength: float = 1.0,
    least: float = 0.1,
    minimum: int = 30,
    success_at: float = 0.5,
) -> Calibration:
    """Weigh each turn-reward component by its correlation with success over the turns of many groups.

    Args:
        groups: a batch, or a window of recent batches; invalid trajectories do not count.
        strength: weight = strength * correlation.
        least: a correlation of at most this gives weight 0.
        minimum: with fewer successes or fewer failures every weight is 0, because a correlation could be chance.
        success_at: an outcome of at least this is a success.
    Raises: MissingSignalError.
    """
    groups = [group.select(group.valid) for group in groups]
    solved = [group.signal("outcomes") >= success_at for group in groups]
    successes = sum(int(s.sum()) for s in solved)
    failures = sum(len(s) for s in solved) - successes
    correlations = {}
    for name in dict.fromkeys(name for group in groups for name in group.signal("components")):
        rewards, success = [], []
        for group, won in zip(groups, solved, strict=True):
            given = group.signal("components").get(name, np.full(group.turn_mask.shape, np.nan))
            rewards.append(given[~np.isnan(given)])
            success.append(np.broadcast_to(won[:, None], given.shape)[~np.isnan(given)])
        correlations[name] = _correlation(np.concatenate(rewards), np.concatenate(success).astype(np.float64))
    enough = min(successes, failures) >= minimum
    weights = {n: strength * rho if enough and abs(rho) > least else 0.0 for n, rho in correlations.items()}
    return Calibration(correlations, weights, successes, failures)


def _correlation(x: Array, y: Array) -> float:
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    scale = math.sqrt(float(x @ x)) * math.sqrt(float(y @ y))
    return float(np.clip(x @ y / scale, -1, 1)) if scale > 0 else 0.0


def _reweighted(group: Group, weights: Mapping[str, float]) -> Group:
    rewards = np.full(group.turn_mask.shape, np.nan)
    for name, given in group.signal("components").items():
        rewards = np.where(np.isnan(given), rewards, np.nan_to_num(rewards) + weights.get(name, 0.0) * given)
    return replace(group, turn_rewards=rewards)
