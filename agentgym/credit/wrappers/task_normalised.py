"""Task normalisation: one spread for every environment of a batch, so that none drowns the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from agentgym.credit.declaration import Bias
from agentgym.credit.group import Group
from agentgym.credit.signals import Array
from agentgym.credit.statistics import SMALLEST_RELATIVE_STD, SMALLEST_STD, STD_EPSILON
from agentgym.credit.wrappers.wrapper import Estimate, Options, wrapper


def _bias(base: Bias, options: Options) -> Bias:
    return "heuristic" if base == "heuristic" else "biased"


@wrapper(
    source="arXiv:2510.04206 (AgentRL), over tokens; over trajectories: our own",
    requires=lambda options: ("lengths",) if options["weigh"] == "tokens" else (),
    bias=_bias,
    scope="batch",
)
def task_normalised(
    estimate: Estimate,
    groups: Sequence[Group],
    *,
    weigh: Literal["trajectories", "turns", "tokens"] = "trajectories",
    centre: bool = True,
) -> list[Array]:
    """(A - mean) / (spread + 1e-6) over all groups of the batch that were played in the same environment.

    Biased as dividing by a spread of the own advantages is, and, where `weigh` is not "trajectories", by a
    mean in which long trajectories count more.

    Args:
        weigh: what counts one in mean and spread: each trajectory, each turn, or each token (the paper).
        centre: False divides only.
    Returns: in standard deviations. Degenerate: an environment whose advantages do not differ gets exactly 0.
    """
    found = estimate(groups)
    for name in {group.environment for group in groups}:
        own = [i for i, group in enumerate(groups) if group.environment == name]
        values = np.concatenate([found[i][groups[i].played] for i in own])
        weights = np.concatenate([_weights(groups[i], weigh)[groups[i].played] for i in own])
        weights = weights / weights.sum()
        low = values.min(initial=np.inf)
        mean = low + weights @ (values - low)
        spread = float(np.sqrt(weights @ (values - mean) ** 2))
        tells = spread > max(SMALLEST_STD, SMALLEST_RELATIVE_STD * np.abs(values).max(initial=0.0))
        for i in own:
            above = found[i] - mean if centre else found[i]
            found[i] = np.where(groups[i].played, above / (spread + STD_EPSILON), 0.0) if tells else 0.0 * found[i]
    return found


def _weights(group: Group, weigh: str) -> Array:
    if weigh == "tokens":
        tokens: Array = np.nan_to_num(group.signal("lengths"))
        return tokens
    each = np.ones(group.size) if weigh == "turns" else 1.0 / group.turns
    found: Array = np.where(group.played, np.reshape(each, (-1, 1)), 0.0)
    return found
