"""Search over turns: what a policy can reach if it may return to an earlier state and try something else.

A node of the tree is an episode of a few turns, stored in the ledger. A node is grown by one more turn from the
environment's checkpoint at its end; without checkpoints its calls are repeated and compared.

contract.py    TurnSearch: the interface of every search and value; searches many tasks at once
tree.py        SearchTree: grows the nodes of one episode, counts their cost, plays the chosen node to its end
searched.py    an episode that a search chose, with its tree
ends.py makes training data for a later stage from a tree
best_first.py beam.py mcts.py   the searches
values.py      values of nodes: the environment's potential, the policy's log-probabilities, rollouts, a reward
"""

from agentgym.evaluation import make_search

from .beam import BeamSearch
from .best_first import BestFirst
from .contract import SearchValue, TurnSearch, search_episodes
from .mcts import TreeSearch
from .searched import SearchedEpisode
from .tree import Node, SearchTree, TreeCost

__all__ = [
    "BeamSearch",
    "BestFirst",
    "Node",
    "SearchTree",
    "SearchValue",
    "SearchedEpisode",
    "TreeCost",
    "TreeSearch",
    "TurnSearch",
    "make_search",
    "search_episodes",
]
