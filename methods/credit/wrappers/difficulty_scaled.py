"""Difficulty: tasks that are harder count more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentgym import CreditError
from agentgym.credit import Array, BiasClass, Group
from agentgym.credit.wrappers import Estimate, define_wrapper
from agentgym.options import Weight


def _requires(options: Mapping[str, Any]) -> tuple[str, ...]:
    return ("outcomes", "outcome_components") if options["component"] else ("outcomes",)


def _bias(base: BiasClass, options: Mapping[str, Any]) -> BiasClass:
    """Return the wrapped estimator's bias class if the weights depend only on the task; else "biased", unless it is
    "heuristic".
    """
    by_episodes = options["strength"] and not options["component"]
    return "biased" if (by_episodes or options["gap"]) and base != "heuristic" else base


@define_wrapper(
    source="GUI-G1, arXiv:2505.15810, by the authors' code: a rate of each task multiplies its loss; GRPO-S of DR-IRL, "
    "arXiv:2503.18991: hardness of the data and the reward gap scale it. Hardness by the group's mean outcome, and the "
    "product: our own",
    requires=_requires,
    bias=_bias,
)
def difficulty_scaled(
    estimate: Estimate,
    groups: Sequence[Group],
    *,
    component: str = "",
    strength: Weight = 1.0,
    gap: bool = False,
) -> list[Array]:
    """The wrapped estimator's advantages; all advantages of a group are multiplied by w.

    w = 1 + strength * (1 - mean outcome of the group), for outcomes between 0 and 1: a rarely solved task counts more.
    With `component`, w is the mean of this outcome component in the group, for example a rate that the task carries
    (reward `task_weight`), and `strength` is unused. With `gap`, w is multiplied by the group's highest minus lowest
    outcome.

    Args:
        component: the name of an outcome component; give it the weight 0 in the reward.
        strength: how much more a never solved task counts than an always solved one; 0 weights all equally.
        gap: whether groups with similar outcomes count less.
    Returns: as the wrapped estimator; with `strength = 0.0` exactly its advantages.
    Raises: CreditError if a group's outcomes lack the component.
    """
    scaled = []
    for group, advantages in zip(groups, estimate(groups), strict=True):
        outcomes = group.signal("outcomes")
        weight = _of_component(group, component) if component else 1.0 + strength * (1.0 - float(np.mean(outcomes)))
        if gap:
            weight *= float(np.ptp(outcomes))
        scaled.append(weight * advantages)
    return scaled


def _of_component(group: Group, component: str) -> float:
    components = group.signal("outcome_components")
    if component not in components:
        known = ", ".join(components) or "none"
        raise CreditError(
            f"difficulty_scaled: no outcome has the component {component!r}. The components are: {known}."
        )
    return float(np.mean(components[component]))
