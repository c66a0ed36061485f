"""Sibling credit: compare a turn with the other turns tried from the same state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from agentgym.credit import Array, BiasClass, Group, define_estimator
from agentgym.options import Weight

from .branches import build_tree, node_values


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
    """The advantage of a turn c is V(c) minus the mean V of the other children of the node before c; V as in
    `branches.node_values`.

    Unbiased if the forks were chosen independently of the rest of the episode, and if the first turn was tried more
    than once: a prefix shared by all trajectories has no siblings and gets 0.

    Args:
        alone: what a turn without siblings gets: "inherit", its parent's advantage, because no alternative was tried in
            between; or "zero", which drops its gradient (biased).
        weigh: a turn shared by n trajectories occurs n times in the batch. "branches" scales its advantage so that all
            children of a node have the same weight in the batch, however many leaves they have; in a full tree the
            factor is 1. "leaves" does not scale: children that end early have too little weight (biased).
        outcome_weight, turn_weight: as in `rloo`.
    Returns: [N, T], reward units. Degenerate: without any shared turn it is `rloo` up to rounding.
    """
    tree = build_tree(group)
    values = node_values(tree, group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    lowest = np.full(len(values), np.inf)
    np.minimum.at(lowest, tree.family, values)
    above = values - lowest[tree.family]  # subtracted first, so that equal siblings give exactly 0
    others = np.bincount(tree.family, weights=above)[tree.family] - above
    advantages = above - others / np.maximum(tree.siblings - 1, 1)
    forks = tree.nodes_to_paths(tree.siblings.astype(np.float64)) > 1
    if alone == "inherit":
        nearest = np.maximum.accumulate(np.where(forks, np.arange(forks.shape[1]), 0), axis=1)
        advantages = tree.paths_to_nodes(np.take_along_axis(tree.nodes_to_paths(advantages), nearest, axis=1))
    if weigh == "branches":
        share = np.where(tree.path >= 0, 1.0 / tree.siblings[tree.path], 1.0)
        chance = tree.paths_to_nodes(np.asarray(np.cumprod(share, axis=1), np.float64))
        advantages = advantages * group.size * chance / tree.listings
    return tree.nodes_to_turns(advantages)
