"""The tree that trajectories with shared beginnings form, as arrays over its nodes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentgym.credit.group import Group
from agentgym.credit.returns import rewards_or_zero
from agentgym.credit.signals import Array
from agentgym.errors import CreditError

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TurnTree:
    """A node is one turn, played once, whichever trajectories go through it; M nodes.

    Attributes:
        node: [N, T] the node that each turn is, -1 where not played.
        path: [N, D] the nodes that each trajectory goes through, also those before it was forked off, then -1.
        depth: [M] place of each node in the paths.
        parent: [M] the node of the turn before, -1 where that is in no trajectory of the group.
        family: [M] the same number for nodes that follow the same turn, in the group or not.
        rows: [M] trajectories that list the node among their turns; a trajectory that was forked off does not
            list what came before.
    """

    node: Indices
    path: Indices
    depth: Indices
    parent: Indices
    family: Indices
    rows: Indices

    @property
    def siblings(self) -> Indices:
        """[M] nodes of the same family, itself included."""
        count: Indices = np.bincount(self.family)[self.family]
        return count

    @property
    def ends(self) -> Indices:
        """[N] the node of each trajectory's last turn."""
        found: Indices = self.path[np.arange(len(self.path)), (self.path >= 0).sum(axis=1) - 1]
        return found

    def along(self, numbers: Array) -> Array:
        """[M] numbers of nodes on the paths: [N, D], 0 behind the last."""
        return np.where(self.path >= 0, numbers[self.path], 0.0)

    def back(self, numbers: Array) -> Array:
        """[N, D] numbers on the paths, alike wherever paths share a node, as numbers of nodes: [M]."""
        found: Array = np.zeros(len(self.parent))
        here = self.path >= 0
        found[self.path[here]] = numbers[here]
        return found

    def mean_of_leaves(self, numbers: Array) -> Array:
        """[M] mean of [N] numbers over the trajectories that go through each node or were forked off below it."""
        here = self.path >= 0
        spread = np.broadcast_to(numbers[:, None], here.shape)[here]
        return _sums(self.path[here], spread, len(self.rows)) / np.bincount(self.path[here], minlength=len(self.rows))

    def on_turns(self, numbers: Array) -> Array:
        """[M] numbers of nodes on the turns that they are: [N, T], 0 where not played."""
        return np.where(self.node >= 0, numbers[self.node], 0.0)

    def of_turns(self, numbers: Array) -> Array:
        """[M] mean of [N, T] numbers over the trajectories that list each node."""
        here = self.node >= 0
        return _sums(self.node[here], numbers[here], len(self.rows)) / self.rows


def build_tree(group: Group) -> TurnTree:
    """The tree of the group's `branches` and `parents`; a label None is a node of its own.

    Raises: MissingSignalError; CreditError where nodes follow each other in a circle.
    """
    labels, starts = group.signal("branches"), group.parents or (None,) * group.size
    found: dict[Hashable, int] = {}
    before: list[Hashable] = []
    rows: list[list[int]] = []
    for i, row in enumerate(labels):
        last = starts[i]
        nodes = []
        for k, label in enumerate(row):
            own = label if label is not None else ("unnamed", i, k)
            place = found.setdefault(own, len(before))
            if place == len(before):
                before.append(last)
            nodes.append(place)
            last = own
        rows.append(nodes)
    parent = [found.get(label, -1) if label is not None else -1 for label in before]
    paths = [[*_ancestors(parent, row), *row] for row in rows]
    families: dict[Hashable, int] = {}
    family = np.array([families.setdefault(label, len(families)) for label in before], np.int64)
    node, path = _padded(rows), _padded(paths)
    depth = np.zeros(len(parent), np.int64)
    here = path >= 0
    depth[path[here]] = np.broadcast_to(np.arange(path.shape[1]), path.shape)[here]
    listed = np.bincount(node[node >= 0], minlength=len(parent))
    return TurnTree(node, path, depth, np.array(parent, np.int64), family, listed)


def node_values(tree: TurnTree, group: Group, *, outcome_weight: float, turn_weight: float) -> Array:
    """[M] what was seen to come from each node on: its turn's reward, then the mean over what followed it.

    What followed are its children, each worth as much as the others however many trajectories go
    through it, and the outcomes of the trajectories that end there.
    """
    size = len(tree.parent)
    values = turn_weight * tree.of_turns(rewards_or_zero(group))
    total = _sums(tree.ends, outcome_weight * group.signal("outcomes"), size)
    count = np.bincount(tree.ends, minlength=size) + np.bincount(tree.parent + 1, minlength=size + 1)[1:]
    by_depth = np.argsort(tree.depth, kind="stable")
    levels = np.split(by_depth, np.cumsum(np.bincount(tree.depth))[:-1])
    for here in reversed(levels):
        values[here] += total[here] / count[here]
        parents = tree.parent[here]
        if parents[0] >= 0:  # all of a level have one, or none of the first
            total += _sums(parents, values[here], size)
    return values


def _sums(places: Indices, numbers: Array, size: int) -> Array:
    """[size] sum of the numbers at each place."""
    return np.asarray(np.bincount(places, weights=numbers, minlength=size), np.float64)


def _ancestors(parent: list[int], row: list[int]) -> list[int]:
    """The nodes before a trajectory's own, from the first on. Raises: CreditError for a circle."""
    found: list[int] = []
    above = parent[row[0]]
    while above >= 0:
        if len(found) > len(parent):
            raise CreditError("branches and parents go in a circle: a node follows a turn that follows it.")
        found.append(above)
        above = parent[above]
    return found[::-1]


def _padded(rows: list[list[int]]) -> Indices:
    found: Indices = np.full((len(rows), max(map(len, rows))), -1, np.int64)
    for i, row in enumerate(rows):
        found[i, : len(row)] = row
    return found
