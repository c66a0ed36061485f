"""`repetition`: what saying or calling the same again costs.

Source: n-gram repetition penalty, Yeo et al. 2025, arXiv:2502.03373, appendix; the same for calls is ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentgym import Call, Reward
from agentgym.reward import Components, EpisodeView, TurnView

MAX_CHARS = 100_000


class Repetition(Reward):
    """Turn component `repeated_calls` and outcome component `repetition`, both from -1 to 0.

    `repeated_calls`: minus the share of the turn's calls that were made before in the episode with equal arguments; a
    turn without calls has none. `repetition`: minus the share of word n-grams in the agent's messages that occur
    more than once, counted by the second and later times; a text of 100,000 characters more counts as all repeated.

    Args:
        words: n, the length of an n-gram, at least 1.
    """

    weights: Mapping[str, float] = {"repeated_calls": 0.1, "repetition": 0.1}

    def __init__(self, words: int = 4) -> None:
        if words < 1:
            raise ValueError(f"words is {words!r}: an n-gram has at least one word.")
        self.words = words

    def turn(self, turn: TurnView, episode: EpisodeView) -> Components:
        if not turn.calls:
            return {}
        seen = {_key(call) for past in episode.turns if past.index < turn.index for call in past.calls}
        again = 0
        for call in turn.calls:
            again += _key(call) in seen
            seen.add(_key(call))
        return {"repeated_calls": -again / len(turn.calls)}

    def outcome(self, episode: EpisodeView) -> Components:
        return {"repetition": -repeated_share("\n".join(turn.message.text for turn in episode.turns), self.words)}


def repeated_share(text: str, words: int) -> float:
    """The share of a text's word n-grams that stood there before: 0 for none, near 1 for one word for ever."""
    if len(text) > MAX_CHARS:
        return 1.0
    split = text.casefold().split()
    grams = [tuple(split[at : at + words]) for at in range(len(split) - words + 1)]
    return 1.0 - len(set(grams)) / len(grams) if grams else 0.0


def _key(call: Call) -> Any:
    return call.name, json.dumps(call.arguments, sort_keys=True, default=str), call.error
