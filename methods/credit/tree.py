"""Tree-GRPO: compare each leaf with all leaves and with the leaves of its own tree."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit import Array, Ddof, Group, arithmetic, define_estimator
from agentgym.options import Weight

from .branches import build_tree


@define_estimator(
    requires=("outcomes", "branches"), bias="biased", source="Ji et al. 2025, arXiv:2509.21240 (Tree-GRPO)"
)
def tree(
    group: Group,
    *,
    shared: Literal["each", "once"] = "each",
    ddof: Ddof = 1,
    outcome_weight: Weight = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_i = z(R_i among all leaves) + z(R_i in its own tree), z standardises; a shared turn gets the mean over its
    leaves.

    A tree is the set of trajectories with the same first turn. A leaf is a trajectory's end. Biased: a turn is compared
    with turns from other states; its leaves are not independent; and the baseline within the tree includes the leaves
    of the turn itself. `sibling` is the unbiased form.

    Args:
        shared: "each" gives a turn its advantage in every trajectory through it, so n leaves give it weight n; "once"
            divides by n.
        ddof: delta degrees of freedom of both standard deviations.
        outcome_weight, turn_weight: as in `grpo`.
    Returns: [N, T], in standard deviations. Degenerate: with one leaf per tree it equals `grpo`.
    """
    forest = build_tree(group)
    earned = forest.nodes_to_paths(turn_weight * forest.turns_to_nodes(arithmetic.rewards_or_zero(group))).sum(axis=1)
    returns = outcome_weight * group.signal("outcomes") + earned
    tree_ids = forest.path[:, 0]
    in_tree = tree_ids[:, None] == np.unique(tree_ids)[None]  # [N, trees]
    within = arithmetic.standardised(
        np.broadcast_to(returns[:, None], in_tree.shape), baseline="mean", ddof=ddof, mask=in_tree
    )
    leaf = arithmetic.standardised(returns, baseline="mean", ddof=ddof) + within.sum(axis=1)
    advantages = forest.mean_of_leaves(leaf)
    if shared == "once":
        advantages = advantages / forest.listings
    return forest.nodes_to_turns(advantages)
