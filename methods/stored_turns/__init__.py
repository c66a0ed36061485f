"""Turns of recorded episodes, from which critics and offline stages learn.

transitions.py   turns of recorded episodes as transitions (prefix, turn, reward, continuation)
store.py         a bounded store of transitions with seeded sampling
archive.py       episodes of this and other runs by id, and a check that they have a model's tokens
turn_logprobs.py log-probabilities of stored turns under the current model
"""

from .store import TransitionStore
from .transitions import ReturnSpec, StoredEpisode, TurnTransition

__all__ = ["ReturnSpec", "StoredEpisode", "TransitionStore", "TurnTransition"]
