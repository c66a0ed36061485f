"""`repetition`: penalties for repeated calls and repeated text.

Source: n-gram repetition penalty, Yeo et al. 2025, arXiv:2502.03373, appendix; its application to calls is ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentgym import Call, Reward, Trajectory, Turn
from agentgym.reward import Components

MAX_CHARS = 100_000


class Repetition(Reward):
    """Turn component `repeated_calls` and outcome component `repetition`, both from -1 to 0.

    `repeated_calls`: minus the share of the turn's calls that were made earlier in the episode with equal arguments; a
    turn without calls has no such component. `repetition`: minus the share of word n-grams in the agent's messages that
    have occurred before; a text of more than 100,000 characters counts as completely repeated.

    Args:
        words: n, the length of an n-gram, at least 1.
    """

    weights: Mapping[str, float] = {"repeated_calls": 0.1, "repetition": 0.1}

    def __init__(self, words: int = 4) -> None:
        if words < 1:
            raise ValueError(f"words = {words!r} is not valid: an n-gram has at least one word.")
        self.words = words

    def turn(self, turn: Turn, episode: Trajectory) -> Components:
        if not turn.calls:
            return {}
        known_calls = {_key(call) for past in episode.turns if past.index < turn.index for call in past.calls}
        repeated = 0
        for call in turn.calls:
            repeated += _key(call) in known_calls
            known_calls.add(_key(call))
        return {"repeated_calls": -repeated / len(turn.calls)}

    def outcome(self, episode: Trajectory) -> Components:
        return {"repetition": -repeated_share("\n".join(turn.message.text for turn in episode.turns), self.words)}


def repeated_share(text: str, words: int) -> float:
    """Return the share of a text's word n-grams that repeat earlier ones: 0 if none does, near 1 if the text is one
    word over and over.
    """
    if len(text) > MAX_CHARS:
        return 1.0
    split = text.casefold().split()
    grams = [tuple(split[start : start + words]) for start in range(len(split) - words + 1)]
    return 1.0 - len(set(grams)) / len(grams) if grams else 0.0


def _key(call: Call) -> Any:
    return call.name, json.dumps(call.arguments, sort_keys=True, default=str), call.error
