"""An episode that a search chose, with its tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentgym.trajectory import Trajectory

from .ends import labelled_ends, valued_nodes
from .tree import SearchTree, TreeCost


@dataclass(frozen=True, slots=True)
class SearchedEpisode:
    """An episode that a search chose, played to its end and judged as any other.

    Attributes:
        trajectory: the episode. Its `provenance.branch` names the node that it comes from.
        cost: what the search took beside it.
        tree: all that was grown.
    """

    trajectory: Trajectory
    cost: TreeCost
    tree: SearchTree

    def nodes(self) -> Iterator[Trajectory]:
        """Yield the episodes of all nodes of the tree, each with its value in its end state."""
        return valued_nodes(self.tree)

    def ends(self, label: str, *, traces: bool = False) -> Iterator[Trajectory]:
        """Yield the whole episodes of the tree, with the values of their nodes as labels; see `labelled_ends`."""
        return labelled_ends(self.tree, self.trajectory, label, traces=traces)
