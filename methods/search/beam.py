"""Beam search: keep the best few nodes of every turn."""

from __future__ import annotations

from agentgym.options import Count

from .contract import TurnSearch
from .tree import Node, SearchTree


class BeamSearch(TurnSearch):
    """Grows `width` nodes at a time, and keeps as many of the best of what comes of them.

    Nodes that have ended keep their place in the beam. It ends when all have, or the budget is used up; the best is
    taken. With `width` and `candidates` of 1 the policy plays as it does by itself.
    """

    width: Count = 4
    """How many nodes are grown at a time, and kept."""

    async def choose(self, tree: SearchTree) -> Node:
        """Grow the widest layers that the budget allows, and return the best node."""
        beam = [tree.root]
        while tree.nodes_left and not all(node.ended for node in beam):
            grown = [node for node in beam if node.ended]
            for node in beam:
                if not node.ended and tree.nodes_left:
                    grown += tree.fresh(await tree.expand(node, self.candidates))
            if not grown:
                break
            beam = sorted(grown, key=lambda node: -node.value)[: self.width]
        return max(beam, key=lambda node: (node.value, node.ended))
