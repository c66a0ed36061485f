"""`bfcl_turns`: whether, after each turn, state and results of the functions are those that BFCL's published calls
give.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from agentgym import JudgeError, Reward, StopReason, Trajectory
from agentgym.reward import SUCCESS, Components, read_submission

RECORD = "Record: "
MAX_STEPS = 20
"""The largest number of messages with calls in one turn; with more, the leaderboard stops the item."""


class BfclTurns(Reward):
    """For `agentgym/function-turns-v1`: `truth["turns"]` has, for each turn, digests of `state` and of all `results`.

    A turn without results in the truth is not compared: in it the agent still lacks information that a later turn
    gives. In every other turn the agent must have made a call, the final state must be the expected one, and all
    expected results must be among the episode's results so far. Outcome components: `success`, 1.0 if all turns are
    right; `progress`, the share of turns before the first wrong one, with weight 0.

    Source: BFCL, Patil et al. 2025 (ICML), multi-turn: state-based and response-based evaluation, as the package
        `bfcl-eval` 2026.3.23 computes it; tests compare the verdicts.
    """

    weights: Mapping[str, float] = {"progress": 0.0}

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the task has no truth that this reward can read.
        """
        truth = episode.task.truth
        try:
            expected = [(turn["state"], list(turn["results"])) for turn in truth["turns"]]
        except (KeyError, TypeError, ValueError) as error:
            raise JudgeError(f"{episode.task.id}: truth['turns'] is not a list of turns: {error!r}.") from error
        actual = read_submission(lambda: _record_of(episode)) or []
        if not expected:
            raise JudgeError(f"{episode.task.id}: truth['turns'] is empty. Give the calls of each turn.")
        right = turns_right(actual, expected) if _most_steps(episode) <= MAX_STEPS else 0
        return {SUCCESS: float(right == len(expected) == len(actual)), "progress": right / len(expected)}


def turns_right(actual: Sequence[tuple[str, list[str]]], expected: Sequence[tuple[str, list[str]]]) -> int:
    """Return the number of turns before the first wrong one. A turn is given as its state and results."""
    results: Counter[str] = Counter()
    for number, ((state, given), (right_state, required)) in enumerate(zip(actual, expected, strict=False)):
        results.update(given)
        if required and (not given or state != right_state or Counter(required) - results):
            return number
    return min(len(actual), len(expected))


def _most_steps(episode: Trajectory) -> int:
    most = steps = 0
    for turn in episode.turns:
        steps = steps + 1 if turn.calls else 0
        most = max(most, steps)
    return most


def _record_of(episode: Trajectory) -> list[tuple[str, list[str]]]:
    """Return the turns in the last reply, which only the environment writes; empty if something else ended the episode.

    Raises: ValueError, KeyError, TypeError for an unreadable record.
    """
    if episode.stop_reason is not StopReason.ENVIRONMENT or not episode.turns or not episode.turns[-1].replies:
        return []
    _, mark, line = episode.turns[-1].replies[-1].text.rpartition(RECORD)
    turns = json.loads(line)["turns"] if mark else []
    return [(turn["state"], [str(result) for result in turn["results"]]) for turn in turns]
