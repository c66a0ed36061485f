"""The tree of trajectories with common prefixes, as arrays over its nodes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentgym import CreditError
from agentgym.credit import Array, Group, arithmetic

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TurnTree:
    """A tree of M nodes. A node is one turn that was played once, however many trajectories share it.

    A forked trajectory lists only the turns after the fork; its path also holds the turns before it.

    Attributes:
        node: [N, T] the node of each listed turn, -1 for padding.
        path: [N, D] the nodes on the path of each trajectory from the root, then -1.
        depth: [M] index of each node in the paths.
        parent: [M] the node of the previous turn, -1 if no trajectory of the group lists it.
        family: [M] a number that is the same for all nodes that follow the same turn, whether or not the group has that
            turn.
        listings: [M] number of trajectories that list the node.
    """

    node: Indices
    path: Indices
    depth: Indices
    parent: Indices
    family: Indices
    listings: Indices

    @property
    def siblings(self) -> Indices:
        """Return [M] the number of nodes in each node's family, including the node itself."""
        count: Indices = np.bincount(self.family)[self.family]
        return count

    @property
    def last_nodes(self) -> Indices:
        """Return [N] the node of each trajectory's last turn."""
        last: Indices = self.path[np.arange(len(self.path)), (self.path >= 0).sum(axis=1) - 1]
        return last

    def nodes_to_paths(self, numbers: Array) -> Array:
        """Return the values [M], one per node, as [N, D], one per position on each path; 0 after a path's end."""
        return np.where(self.path >= 0, numbers[self.path], 0.0)

    def paths_to_nodes(self, numbers: Array) -> Array:
        """Return the values [N, D], one per position on each path, as [M], one per node.

        Where paths share a node, their values must be equal.
        """
        of_nodes: Array = np.zeros(len(self.parent))
        on_path = self.path >= 0
        of_nodes[self.path[on_path]] = numbers[on_path]
        return of_nodes

    def nodes_to_turns(self, numbers: Array) -> Array:
        """Return the values [M], one per node, as [N, T], one per listed turn; 0 for padding."""
        return np.where(self.node >= 0, numbers[self.node], 0.0)

    def turns_to_nodes(self, numbers: Array) -> Array:
        """Return [M] for each node the mean of the values [N, T] over the trajectories that list the node."""
        listed = self.node >= 0
        return _sums(self.node[listed], numbers[listed], len(self.listings)) / self.listings

    def mean_of_leaves(self, numbers: Array) -> Array:
        """Return [M] for each node the mean of the values [N] over the trajectories through the node."""
        on_path = self.path >= 0
        nodes, size = self.path[on_path], len(self.listings)
        broadcast = np.broadcast_to(numbers[:, None], on_path.shape)[on_path]
        return _sums(nodes, broadcast, size) / np.bincount(nodes, minlength=size)


def build_tree(group: Group) -> TurnTree:
    """Return the tree of the group's `branches` and `parents`; every turn labelled None becomes a separate node.

    Raises: MissingSignalError; CreditError if the nodes form a cycle.
    """
    labels, starts = group.signal("branches"), group.parents or (None,) * group.size
    index_of: dict[Hashable, int] = {}
    parent_labels: list[Hashable] = []
    rows: list[list[int]] = []
    for i, row in enumerate(labels):
        previous = starts[i]
        nodes = []
        for k, label in enumerate(row):
            node_label = label if label is not None else ("unnamed", i, k)
            index = index_of.setdefault(node_label, len(parent_labels))
            if index == len(parent_labels):
                parent_labels.append(previous)
            nodes.append(index)
            previous = node_label
        rows.append(nodes)
    parent = [index_of.get(label, -1) if label is not None else -1 for label in parent_labels]
    family_of: dict[Hashable, int] = {}
    family = np.array([family_of.setdefault(label, len(family_of)) for label in parent_labels], np.int64)
    node, path = _padded(rows), _padded([[*_ancestors(parent, row), *row] for row in rows])
    depth = np.zeros(len(parent), np.int64)
    on_path = path >= 0
    depth[path[on_path]] = np.broadcast_to(np.arange(path.shape[1]), path.shape)[on_path]
    listings = np.bincount(node[node >= 0], minlength=len(parent))
    return TurnTree(node, path, depth, np.array(parent, np.int64), family, listings)


def node_values(tree: TurnTree, group: Group, *, outcome_weight: float, turn_weight: float) -> Array:
    """Return [M] the value of each node: the reward of its turn, plus the mean of what follows the turn.

    The mean is over the values of the node's children and the outcomes of the trajectories that end at the node. Each
    child has weight 1, however many trajectories share it.
    """
    size = len(tree.parent)
    values = turn_weight * tree.turns_to_nodes(arithmetic.rewards_or_zero(group))
    total = _sums(tree.last_nodes, outcome_weight * group.signal("outcomes"), size)
    count = np.bincount(tree.last_nodes, minlength=size) + np.bincount(tree.parent + 1, minlength=size + 1)[1:]
    by_depth = np.argsort(tree.depth, kind="stable")
    levels = np.split(by_depth, np.cumsum(np.bincount(tree.depth))[:-1])
    for level in reversed(levels):
        values[level] += total[level] / count[level]
        parents = tree.parent[level]
        if parents[0] >= 0:  # at each level, all nodes have a parent, or none has one
            total += _sums(parents, values[level], size)
    return values


def _sums(indices: Indices, numbers: Array, size: int) -> Array:
    """Return [size] the sum of the values at each index."""
    return np.asarray(np.bincount(indices, weights=numbers, minlength=size), np.float64)


def _ancestors(parent: list[int], row: list[int]) -> list[int]:
    """Return the nodes before a trajectory's own turns, from the root on. Raises: CreditError for a cycle."""
    ancestors: list[int] = []
    node = parent[row[0]]
    while node >= 0:
        if len(ancestors) > len(parent):
            raise CreditError(
                "branches and parents form a circle: a turn would come after itself. Correct the parents."
            )
        ancestors.append(node)
        node = parent[node]
    return ancestors[::-1]


def _padded(rows: list[list[int]]) -> Indices:
    """Pad each row with -1. Returns: [N, longest row]."""
    padded: Indices = np.full((len(rows), max(map(len, rows))), -1, np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded
