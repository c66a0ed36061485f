"""The tree that trajectories with shared beginnings form, as arrays over its nodes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentgym.credit.group import Group
from agentgym.credit.returns import summable_rewards
from agentgym.credit.signals import Array
from agentgym.errors import CreditError

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tree:
    """A node is one turn, played once, whichever trajectories go through it; M nodes.

    Attributes:
        node: [N, T] the node that each turn is, -1 where not played.
        parent: [M] the node of the turn before, -1 where that is in no trajectory of the group.
        family: [M] the same number for nodes that follow the same turn, in the group or not.
        levels: the nodes by depth: those without a parent, their children, and so on.
        rows: [M] trajectories that list the node among their turns; a trajectory that was forked off does not
            list what came before.
    """

    node: Places
    parent: Places
    family: Places
    levels: tuple[Places, ...]
    rows: Places

    @property
    def siblings(self) -> Places:
        """[M] nodes of the same family, itself included."""
        count: Places = np.bincount(self.family)[self.family]
        return count

    @property
    def ends(self) -> Places:
        """[N] the node of each trajectory's last turn."""
        found: Places = self.node[np.arange(len(self.node)), (self.node >= 0).sum(axis=1) - 1]
        return found

    @property
    def roots(self) -> Places:
        """[M] the node without a parent from which each node descends."""
        found = np.arange(len(self.parent))
        for here in self.levels[1:]:
            found[here] = found[self.parent[here]]
        return found

    def from_leaves(self, numbers: Array) -> Array:
        """[M] sum of [N] numbers over the trajectories that go through each node or were forked off below it."""
        total: Array = np.zeros(len(self.parent))
        np.add.at(total, self.ends, numbers)
        for here in reversed(self.levels[1:]):
            np.add.at(total, self.parent[here], total[here])
        return total

    def on_turns(self, numbers: Array) -> Array:
        """[M] numbers of nodes on the turns that they are: [N, T], 0 where not played."""
        return np.where(self.node >= 0, numbers[self.node], 0.0)

    def of_turns(self, numbers: Array) -> Array:
        """[M] mean of [N, T] numbers over the trajectories that list each node."""
        here = self.node >= 0
        total: Array = np.zeros(len(self.parent))
        np.add.at(total, self.node[here], numbers[here])
        return total / self.rows


def tree_of(group: Group) -> Tree:
    """The tree of the group's `branches` and `parents`; a label None is a node of its own.

    Raises: MissingSignalError; CreditError where nodes follow each other in a circle.
    """
    labels, starts = group.signal("branches"), group.parents or (None,) * group.size
    node: Places = np.full(group.played.shape, -1, np.int64)
    found: dict[Hashable, int] = {}
    before: list[Hashable] = []
    for i, row in enumerate(labels):
        last = starts[i]
        for k, label in enumerate(row):
            own = label if label is not None else ("unnamed", i, k)
            if own not in found:
                found[own] = len(before)
                before.append(last)
            node[i, k] = found[own]
            last = own
    parent = np.array([found.get(label, -1) if label is not None else -1 for label in before], np.int64)
    families: dict[Hashable, int] = {}
    family = np.array([families.setdefault(label, len(families)) for label in before], np.int64)
    return Tree(node, parent, family, _levels(parent), np.bincount(node[node >= 0], minlength=len(parent)))


def node_values(tree: Tree, group: Group, *, outcome_weight: float, turn_weight: float) -> Array:
    """[M] what was seen to come from each node on: its turn's reward, then the mean over what followed it.

    What followed are its children, each worth as much as the others however many trajectories go
    through it, and the outcomes of the trajectories that end there.
    """
    size = len(tree.parent)
    values = turn_weight * tree.of_turns(summable_rewards(group))
    total = np.bincount(tree.ends, weights=outcome_weight * group.signal("outcomes"), minlength=size)
    count = np.bincount(tree.ends, minlength=size) + np.bincount(tree.parent + 1, minlength=size + 1)[1:]
    for here in reversed(tree.levels):
        values[here] += total[here] / count[here]
        inner = here[tree.parent[here] >= 0]
        np.add.at(total, tree.parent[inner], values[inner])
    return values


def _levels(parent: Places) -> tuple[Places, ...]:
    depth = np.zeros(len(parent), np.int64)
    for _ in range(len(parent)):
        deeper = np.where(parent >= 0, depth[parent] + 1, 0)
        if np.array_equal(deeper, depth):
            return tuple(np.flatnonzero(depth == k) for k in range(depth.max(initial=-1) + 1))
        depth = deeper
    if len(parent):
        raise CreditError("branches and parents go in a circle: a node follows a turn that follows it.")
    return ()
