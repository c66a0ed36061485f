"""`action_similarity`: how similar the agent's next action is to the expert's, ignoring its reasoning.

Source: SRL, Deng et al. 2025, arXiv:2510.25992, section 4: the ratio of Python's sequence matcher (twice the matching
characters, divided by all characters of both actions); -1 for an answer without a readable action.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agentgym import Call, JudgeError, Reward, Trajectory
from agentgym.reward import SUCCESS, Components

from .patch_similarity import alike


class ActionSimilarity(Reward):
    """Outcome components of the first turn: `action_similarity`, -1 to 1; and `success`, 1.0 for the expert's action.

    `truth` is the expert's message: `calls`, each with `name` and `arguments`, and `text`. If the expert called a tool,
    only calls are compared, in their order, and the text beside them is ignored; a message without a readable call
    earns -1. If the expert wrote only text, the texts are compared, and a call earns -1. `success` has weight 0.
    """

    weights: Mapping[str, float] = {SUCCESS: 0.0, "action_similarity": 1.0}

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no expert action."""
        truth = episode.task.truth
        if not isinstance(truth, Mapping) or not (truth.get("calls") or truth.get("text")):
            raise JudgeError(f"{episode.task.id}: the truth has no action of an expert. Give it `calls` or `text`.")
        similarity = _similarity(episode, truth)
        return {SUCCESS: float(similarity == 1.0), "action_similarity": similarity}


def _similarity(episode: Trajectory, truth: Mapping[str, Any]) -> float:
    if not episode.turns:
        return -1.0
    turn = episode.turns[0]
    expert_calls = [Call(call["name"], call["arguments"]) for call in truth.get("calls", ())]
    if any(call.error is not None for call in turn.calls) or bool(turn.calls) != bool(expert_calls):
        return -1.0
    if expert_calls:
        own, expert = _written(turn.calls), _written(expert_calls)
    else:
        own, expert = turn.message.text.strip(), str(truth["text"]).strip()
    return 1.0 if own == expert else alike(own, expert)


def _written(calls: Iterable[Call]) -> str:
    """Return calls as text, one per line, in a form that does not depend on the call format."""
    rows = ([call.name, call.arguments] for call in calls)
    return "\n".join(json.dumps(row, sort_keys=True, ensure_ascii=False) for row in rows)
