"""`tool_call_match`: are the agent's calls the ones that the task wanted, by name, argument names and values?

Source: correctness reward of ToolRL, Qian et al. 2025, arXiv:2504.13958, section 3.3: 6 * R_max / S_max - 3, where
R_max is the best matching of the calls made with the calls wanted. Accepted values as in the Berkeley Function-Calling
Leaderboard: several may be right for one argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym import Call, JudgeError, Reward
from agentgym.reward import SUCCESS, Components, EpisodeView

MAX_CALLS = 10


@dataclass(frozen=True, slots=True)
class Wanted:
    """One call that the task wants.

    Attributes:
        accepted: for each argument, the values that are right. `optional`: arguments that may be left out.
    """

    name: str
    accepted: Mapping[str, Sequence[Any]]
    optional: frozenset[str] = frozenset()


class ToolCallMatch(Reward):
    """Outcome components `success`, 1.0 if exactly the wanted calls were made, in any order; and `tool_match`, -3 to 3.

    `truth["calls"]` lists them: {"name": ..., "arguments": {...}}, or with "accepted": {argument: [values]} and
    "optional": [arguments]. An empty list wants no call at all. `tool_match` counts 0 in the scalar: give it a
    weight (and `success` none) to train as published. More than 10 calls are wrong, whatever they are.

    Args:
        tools: names of the calls that count; None for all.
    """

    weights: Mapping[str, float] = {"tool_match": 0.0}

    def __init__(self, tools: Sequence[str] | None = None) -> None:
        self.tools = None if tools is None else frozenset(tools)

    def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the task does not say which calls it wants."""
        wanted = _wanted(episode)
        made = [call for turn in episode.turns for call in turn.calls if self.tools is None or call.name in self.tools]
        if any(call.error is not None for call in made) or len(made) > MAX_CALLS:
            return {SUCCESS: 0.0, "tool_match": -3.0}
        if not wanted:
            right = not made and bool(episode.turns)
            return {SUCCESS: float(right), "tool_match": 3.0 if right else -3.0}
        return {SUCCESS: float(exactly(made, wanted)), "tool_match": tool_match(made, wanted)}


def tool_match(made: Sequence[Call], wanted: Sequence[Wanted]) -> float:
    """ToolRL's correctness reward of calls against wanted ones, -3 to 3."""
    most = 1.0 + len(wanted) + sum(len(one.accepted) for one in wanted)
    best = _name_match(made, wanted) + _best_matching([[_call_match(call, one) for call in made] for one in wanted])
    return 6.0 * best / most - 3.0


def exactly(made: Sequence[Call], wanted: Sequence[Wanted]) -> bool:
    """Whether each wanted call was made once and nothing else."""
    if len(made) != len(wanted):
        return False
    return _best_matching([[float(_fits(call, one)) for call in made] for one in wanted]) == len(wanted)


def _name_match(made: Sequence[Call], wanted: Sequence[Wanted]) -> float:
    """Shared names over all names, as sets."""
    one, two = {call.name for call in made}, {call.name for call in wanted}
    return len(one & two) / len(one | two)


def _call_match(call: Call, wanted: Wanted) -> float:
    """Argument names shared over all argument names, and one for each value that is right."""
    if call.name != wanted.name:
        return 0.0
    one, two = set(call.arguments), set(wanted.accepted)
    two -= wanted.optional - one
    names = len(one & two) / len(one | two) if one | two else 1.0
    left_out = len(wanted.accepted.keys() & (wanted.optional - one))
    return names + left_out + sum(same(call.arguments[name], *wanted.accepted[name]) for name in one & two)


def _fits(call: Call, wanted: Wanted) -> bool:
    given = call.arguments
    if call.name != wanted.name or not given.keys() <= wanted.accepted.keys():
        return False
    return all(
        same(given[name], *values) if name in given else name in wanted.optional
        for name, values in wanted.accepted.items()
    )


def same(value: Any, *accepted: Any) -> bool:
    """Whether a value is one of the accepted: text without case and spaces around, numbers by value, true is not 1."""
    return any(_equal(value, one) for one in accepted)


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, str) and isinstance(two, str):
        return " ".join(one.casefold().split()) == " ".join(two.casefold().split())
    if isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)):
        return len(one) == len(two) and all(map(_equal, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_equal(one[key], two[key]) for key in one)
    return (type(one) is type(two) and one == two) or ({type(one), type(two)} == {int, float} and one == two)


def _best_matching(scores: Sequence[Sequence[float]]) -> float:
    """The largest sum of one score a row, no column twice, rows may stay without. Exact: over subsets of rows."""
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


def _wanted(episode: EpisodeView) -> list[Wanted]:
    truth = episode.task.truth
    rows = truth.get("calls") if isinstance(truth, dict) else None
    if not isinstance(rows, list) or len(rows) > MAX_CALLS:
        raise JudgeError(
            f"{episode.task.id} has no list of at most {MAX_CALLS} calls in truth['calls'] for tool_call_match."
        )
    try:
        return [
            Wanted(
                row["name"],
                row["accepted"] if "accepted" in row else {name: [value] for name, value in row["arguments"].items()},
                frozenset(row.get("optional", ())),
            )
            for row in rows
        ]
    except (TypeError, KeyError, AttributeError) as error:
        raise JudgeError(f"{episode.task.id}: a row of truth['calls'] is no call: {error!r}.") from error
