"""Beam search: keep the best few nodes of every turn."""

from __future__ import annotations

from agentgym.options import Count

from .contract import TurnSearch
from .tree import Node, SearchTree


class BeamSearch(TurnSearch):
    """Grows `width` nodes at a time, and keeps the best `width` of the resulting nodes.

    Nodes that end an episode keep their place in the beam. The search stops when all nodes of the beam end an episode
    or the budget is used up, and takes the best node. If `width` and `candidates` are 1, the policy plays as usual.
    """

    width: Count = 4
    """How many nodes are grown at a time, and kept."""

    async def choose(self, tree: SearchTree) -> Node:
        """Grow layer after layer, as wide as the budget allows, and return the best node."""
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
