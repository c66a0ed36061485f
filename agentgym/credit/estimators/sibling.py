"""Sibling credit: a turn against the other turns that were tried from the very same state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from agentgym.credit.branches import build_tree, node_values
from agentgym.credit.contract import BiasClass, define_estimator
from agentgym.credit.group import Group
from agentgym.credit.options import Weight
from agentgym.credit.signals import Array


def _bias(options: Mapping[str, Any]) -> BiasClass:
    return "unbiased" if (options["alone"], options["weigh"]) == ("inherit", "branches") else "biased"


@define_estimator(
    requires=("outcomes", "branches"),
    bias=_bias,
    source="branching: arXiv:2507.19849 (ARPO); comparing siblings: TreeRL and AT2PO, not confirmed against them; "
    "values of nodes, inheritance and weights: our own",
)
def sibling(
    group: Group,
    *,
    alone: Literal["inherit", "zero"] = "inherit",
    weigh: Literal["branches", "leaves"] = "branches",
    outcome_weight: Weight = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A(c) = V(c) - mean of V over the other children of the node before c; V(c) as in `branches.node_values`.

    Unbiased if the places where branches start were not chosen by how the episode then went, and first turns
    were tried more than once: a trunk that all trajectories share has nothing to be compared with and gets 0.

    Args:
        alone: what a turn without siblings gets: "inherit" its parent's advantage (nothing else was tried
            in between, so that is what came of both), or "zero", which drops its gradient (biased).
        weigh: a turn that n trajectories share stands n times in the batch. "branches" scales it so that each
            child of a node counts the same, whether it stopped at once or split into many; in a full tree the
            scale is 1. "leaves" leaves it: children that end early count less than they were sampled (biased).
        outcome_weight, turn_weight: as `rloo`.
    Returns: [N, T], reward units. Degenerate: without any shared turn it is `rloo` up to rounding.
    """
    tree = build_tree(group)
    values = node_values(tree, group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    lowest = np.full(len(values), np.inf)
    np.minimum.at(lowest, tree.family, values)
    above = values - lowest[tree.family]  # equal siblings give exactly 0
    others = np.bincount(tree.family, weights=above)[tree.family] - above
    advantages = above - others / np.maximum(tree.siblings - 1, 1)
    forks = tree.along(tree.siblings.astype(np.float64)) > 1
    if alone == "inherit":
        nearest = np.maximum.accumulate(np.where(forks, np.arange(forks.shape[1]), 0), axis=1)
        advantages = tree.back(np.take_along_axis(tree.along(advantages), nearest, axis=1))
    if weigh == "branches":
        share = np.where(tree.path >= 0, 1.0 / tree.siblings[tree.path], 1.0)
        chance = tree.back(np.asarray(np.cumprod(share, axis=1), np.float64))
        advantages = advantages * group.size * chance / tree.rows
    return tree.on_turns(advantages)
