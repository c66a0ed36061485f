"""Learning from episodes that were played before: those of this run, of other runs, or imported ones.

transitions.py   turns of recorded episodes as transitions: what came before, the turn, its reward, what came after
store.py         a bounded store of transitions that a seeded generator draws from
archive.py       episodes of this run and of others by id, and whether they hold the tokens of a model
turn_logprobs.py log-probabilities of stored turns under a model as it is now
step_critic.py   the probability of success before each turn
token_values.py  values of tokens, to decode by them
conservative_q.py  the same, bootstrapped from likely tokens alone, and episodes ranked by them
dqn.py           an agent that values listed actions
actor.py         a policy trained on stored turns with known advantages
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym._imports import lazy_names

if TYPE_CHECKING:
    from agentgym.training.offline.dqn import DqnPolicy
    from agentgym.training.offline.store import TransitionStore
    from agentgym.training.offline.transitions import StoredEpisode, TurnTransition

_HOME = {
    "DqnPolicy": "dqn",
    "StoredEpisode": "transitions",
    "TransitionStore": "store",
    "TurnTransition": "transitions",
}

__all__ = ["DqnPolicy", "StoredEpisode", "TransitionStore", "TurnTransition"]


__getattr__ = lazy_names(__name__, _HOME)
