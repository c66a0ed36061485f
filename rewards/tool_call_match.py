"""`tool_call_match`: whether the agent's calls are the expected ones, by name, argument names and values.

Source: correctness reward of ToolRL, Qian et al. 2025, arXiv:2504.13958, section 3.3: 6 * R_max / S_max - 3, where
R_max is the best matching of the agent's calls with the expected calls. As in the Berkeley Function-Calling
Leaderboard, an argument may have several accepted values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym import Call, JudgeError, Reward, Trajectory
from agentgym.reward import SUCCESS, Components, comparison

MAX_CALLS = 10


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """An expected call of the task.

    Attributes:
        accepted: the accepted values of each argument. optional: arguments that may be left out.
    """

    name: str
    accepted: Mapping[str, Sequence[Any]]
    optional: frozenset[str] = frozenset()


class ToolCallMatch(Reward):
    """Outcome components `success`, 1.0 for exactly the expected calls in any order; and `tool_match`, -3 to 3.

    `truth["calls"]` lists the expected calls: {"name": ..., "arguments": {...}}, or with "accepted": {argument:
    [values]} and "optional": [arguments]. An empty list expects no call. `tool_match` has weight 0: to train as
    published, give it a weight and `success` weight 0. More than 10 calls are always wrong.

    Args:
        tools: names of the tools whose calls count; None for all.
    """

    weights: Mapping[str, float] = {"tool_match": 0.0}

    def __init__(self, tools: Sequence[str] | None = None) -> None:
        self.tools = None if tools is None else frozenset(tools)

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no expected calls."""
        expected = _expected_calls(episode)
        calls = [call for turn in episode.turns for call in turn.calls if self.tools is None or call.name in self.tools]
        if any(call.error is not None for call in calls) or len(calls) > MAX_CALLS:
            return {SUCCESS: 0.0, "tool_match": -3.0}
        if not expected:
            right = not calls and bool(episode.turns)
            return {SUCCESS: float(right), "tool_match": 3.0 if right else -3.0}
        return {SUCCESS: float(exactly(calls, expected)), "tool_match": tool_match(calls, expected)}


def tool_match(calls: Sequence[Call], expected: Sequence[ExpectedCall]) -> float:
    """Return ToolRL's correctness reward of calls against expected calls, -3 to 3."""
    largest = 1.0 + len(expected) + sum(len(e.accepted) for e in expected)
    best = _name_match(calls, expected) + _best_matching([[_call_match(call, e) for call in calls] for e in expected])
    return 6.0 * best / largest - 3.0


def exactly(calls: Sequence[Call], expected: Sequence[ExpectedCall]) -> bool:
    """Return whether each expected call was made once, and no other call."""
    if len(calls) != len(expected):
        return False
    return _best_matching([[float(_fits(call, e)) for call in calls] for e in expected]) == len(expected)


def _name_match(calls: Sequence[Call], expected: Sequence[ExpectedCall]) -> float:
    """Return the Jaccard similarity of the two sets of tool names."""
    names, expected_names = {call.name for call in calls}, {call.name for call in expected}
    return len(names & expected_names) / len(names | expected_names)


def _call_match(call: Call, expected: ExpectedCall) -> float:
    """Return the Jaccard similarity of the argument names, plus 1 for each right value."""
    if call.name != expected.name:
        return 0.0
    names, expected_names = set(call.arguments), set(expected.accepted)
    expected_names -= expected.optional - names
    shared = len(names & expected_names) / len(names | expected_names) if names | expected_names else 1.0
    left_out = len(expected.accepted.keys() & (expected.optional - names))
    return (
        shared + left_out + sum(same(call.arguments[name], *expected.accepted[name]) for name in names & expected_names)
    )


def _fits(call: Call, expected: ExpectedCall) -> bool:
    arguments = call.arguments
    if call.name != expected.name or not arguments.keys() <= expected.accepted.keys():
        return False
    return all(
        same(arguments[name], *values) if name in arguments else name in expected.optional
        for name, values in expected.accepted.items()
    )


def same(value: Any, *accepted: Any) -> bool:
    """Return whether a value equals an accepted one: text folded, numbers by value; True is not 1."""
    return any(comparison.same_data(value, candidate, folded=True) for candidate in accepted)


def _best_matching(scores: Sequence[Sequence[float]]) -> float:
    """Return the exact largest sum of at most one score per row and column, by dynamic programming over row subsets."""
    rows = len(scores)
    if not rows or not scores[0]:
        return 0.0
    best = {0: 0.0}
    for column in range(len(scores[0])):
        for taken, value in list(best.items()):
            for row in range(rows):
                if not taken >> row & 1 and scores[row][column] > 0:
                    key = taken | 1 << row
                    best[key] = max(best.get(key, 0.0), value + scores[row][column])
    return max(best.values())


def _expected_calls(episode: Trajectory) -> list[ExpectedCall]:
    truth = episode.task.truth
    rows = truth.get("calls") if isinstance(truth, dict) else None
    if not isinstance(rows, list) or len(rows) > MAX_CALLS:
        raise JudgeError(
            f"{episode.task.id} needs truth['calls'] as a list of at most {MAX_CALLS} calls for tool_call_match."
        )
    try:
        return [
            ExpectedCall(
                row["name"],
                row["accepted"] if "accepted" in row else {name: [value] for name, value in row["arguments"].items()},
                frozenset(row.get("optional", ())),
            )
            for row in rows
        ]
    except (TypeError, KeyError, AttributeError) as error:
        raise JudgeError(f"{episode.task.id}: a row of truth['calls'] does not describe a call: {error!r}.") from error
