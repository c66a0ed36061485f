"""Difficulty: tasks that are harder count more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentgym import CreditError
from agentgym.credit import Array, BiasClass, Group, Weight
from agentgym.credit.wrappers import Estimate, define_wrapper


def _requires(options: Mapping[str, Any]) -> tuple[str, ...]:
    return ("outcomes", "outcome_components") if options["component"] else ("outcomes",)


def _bias(base: BiasClass, options: Mapping[str, Any]) -> BiasClass:
    """Return a rate that the task carries weighs tasks, whatever the agent does; the other weights depend on the
    episodes.
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
    """The wrapped estimator's advantages, all those of a group times w.

    w = 1 + strength * (1 - mean outcome of the group), for outcomes between 0 and 1: a task that is solved less often
    counts more. With `component`, w = the mean of that outcome component in the group, for example a rate that the task
    carries (reward `task_weight`), and `strength` is unused. With `gap`, w is multiplied by the highest less the lowest
    outcome of the group.

    Args:
        component: the name of an outcome component; give it the weight 0 in the reward.
        strength: how much more a task that is never solved counts than one that always is; 0 leaves all alike.
        gap: whether groups that differ little in their outcomes count less.
    Returns: as the wrapped estimator. With `strength = 0.0` exactly what it gives.
    Raises: CreditError if the outcomes of a group do not have the component.
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
        raise CreditError(f"difficulty_scaled: no outcome has the component {component!r}. Components are {known}.")
    return float(np.mean(components[component]))
