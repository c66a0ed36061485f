"""An episode that a search chose, with its tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentgym import Trajectory

from .ends import labelled_ends, valued_nodes
from .tree import SearchTree, TreeCost


@dataclass(frozen=True, slots=True)
class SearchedEpisode:
    """An episode that a search chose, played to its end and judged as usual.

    Attributes:
        trajectory: the episode. Its `provenance.branch` names the node that it continues.
        cost: cost of the search beyond the episode.
        tree: the whole tree.
    """

    trajectory: Trajectory
    cost: TreeCost
    tree: SearchTree

    def nodes(self) -> Iterator[Trajectory]:
        """Yield the episodes of all nodes of the tree; each has the node's value in its end state."""
        return valued_nodes(self.tree)

    def ends(self, label: str, *, traces: bool = False) -> Iterator[Trajectory]:
        """Yield the finished episodes of the tree, labelled with the values of their nodes; see `labelled_ends`."""
        return labelled_ends(self.tree, self.trajectory, label, traces=traces)
