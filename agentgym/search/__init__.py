"""Search over turns: what a policy can reach if it may go back to an earlier state and try something else.

A node of the tree is an episode of a few turns that the ledger keeps. It is grown by one more turn, from the checkpoint
of the environment at its end; without checkpoints its calls are repeated and compared.

contract.py    TurnSearch: what every search has, and what a value is
tree.py        SearchTree: grows the nodes of one episode, counts their cost, plays the chosen one to its end
searched.py    searches many tasks at once
best_first.py beam.py mcts.py   the searches
values.py      how good a node is: the environment's potential, the policy's log-probabilities, rollouts, a reward
"""

from agentgym.search.beam import BeamSearch
from agentgym.search.best_first import BestFirst
from agentgym.search.contract import SearchValue, TurnSearch, make_search
from agentgym.search.mcts import TreeSearch
from agentgym.search.searched import SearchedEpisode, search_episodes
from agentgym.search.tree import Node, SearchTree, TreeCost

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
