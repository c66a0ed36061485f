"""Best-first search: always grow the best node."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

from .contract import TurnSearch
from .tree import Node, SearchTree


class BestFirst(TurnSearch):
    """Grows the node with the highest value next, and stops when that node ends an episode.

    Of nodes with equal values, the oldest is grown first. Nodes whose state is in the tree already are left out. When
    the budget is used up, the best node that was not grown is taken; on ties, a node that ends an episode is preferred.
    Source: with value='log_prob(alpha=...)' the search of BFS-Prover, Xin et al. 2025, arXiv:2502.03438.
    """

    async def choose(self, tree: SearchTree) -> Node:
        """Expand the best node until the budget is used up, and return the best node."""
        numbers = count()
        frontier: list[tuple[float, int, Node]] = []
        node = tree.root
        while not node.ended and tree.nodes_left:
            for child in tree.fresh(await tree.expand(node, self.candidates)):
                heappush(frontier, (-child.value, next(numbers), child))
            if not frontier:
                return node
            node = heappop(frontier)[2]
        candidates = [node, *(entry[2] for entry in frontier)]
        return node if node.ended else max(candidates, key=lambda each: (each.value, each.ended))
