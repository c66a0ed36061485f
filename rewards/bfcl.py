"""`bfcl`: whether the agent's first message makes the calls that the Berkeley Function-Calling Leaderboard accepts.

Source: BFCL's comparison of syntax trees, Patil et al. 2025 (ICML, "The Berkeley Function Calling Leaderboard (BFCL)"),
as its package `bfcl-eval` 2026.3.23 computes it. Our tests compare its verdicts with ours. In Java and JavaScript we
read more ways of writing a list or map, and take the quotes off the texts in an array, which that package leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym import Call, JudgeError, Reward, Task, Trajectory
from agentgym.reward import SUCCESS, Components

from .written_values import java_value, javascript_value

TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
READERS = {"java": java_value, "javascript": javascript_value}
LEFT_OUT = ""
"""If this is among the accepted values of an argument, the argument may be left out."""
_IGNORED = str.maketrans("", "", " ,./-_*^")


@dataclass(frozen=True, slots=True)
class AcceptedCall:
    """An expected call.

    Attributes:
        required: arguments that the function requires.
        types: for each declared argument, its type, and the type of its items if it is a list, else None.
        accepted: the accepted values of each argument; for a dict, accepted values by key.
        language: `java` or `javascript` if all arguments are texts in that language; else empty.
        written: then each argument's type in that language, and the type of its items.
    """

    name: str
    required: Sequence[str]
    types: Mapping[str, tuple[str, str | None]]
    accepted: Mapping[str, Sequence[Any]]
    language: str = ""
    written: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)

    def fits(self, call: Call) -> bool:
        """Return whether a call matches this one."""
        given = call.arguments
        if call.name != self.name or not set(self.required) <= given.keys():
            return False
        if not given.keys() <= self.types.keys() & self.accepted.keys():
            return False
        left_out = self.accepted.keys() - given.keys()
        return all(LEFT_OUT in self.accepted[name] for name in left_out) and all(
            self._fits_argument(name, value) for name, value in given.items()
        )

    def _fits_argument(self, name: str, value: Any) -> bool:
        if self.language:
            if not isinstance(value, str):
                return False
            value = READERS[self.language](value, *self.written[name])
        return _fits(value, self.accepted[name], *self.types[name])


class Bfcl(Reward):
    """For single-turn tasks of BFCL: `truth["kind"]` is `calls`, `no_call` (irrelevance) or `some_call` (relevance).

    Outcome component `success`, 1.0 or 0.0. If the kind is `calls`, `truth["calls"]` lists the expected calls in the
    form of `AcceptedCall`: the agent must make exactly these, in any order. Values must have the declared type (a whole
    number is also a float). Text is compared without case, spaces and the signs `,./-_*^`; numbers are compared
    exactly. A message with an unreadable call counts as one without calls. All this is as published.
    """

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no truth that this reward can read."""
        truth = episode.task.truth
        kind = truth.get("kind") if isinstance(truth, dict) else None
        if kind not in ("calls", "no_call", "some_call"):
            raise JudgeError(f"{episode.task.id}: truth['kind'] must be calls, no_call or some_call, not {kind!r:.40}.")
        accepted = accepted_calls(episode.task) if kind == "calls" else []
        if not episode.turns:
            return {SUCCESS: 0.0}
        calls = episode.turns[0].calls
        readable = calls if all(call.error is None for call in calls) else ()
        if kind != "calls":
            return {SUCCESS: float(bool(readable) == (kind == "some_call"))}
        return {SUCCESS: float(all_fit(readable, accepted))}

    @staticmethod
    def accepts(task: Task, calls: Sequence[Call]) -> bool:
        """Return whether the calls are those that a task of kind `calls` requires.

        Raises: JudgeError if the truth lists none.
        """
        return all_fit(calls, accepted_calls(task))


def all_fit(calls: Sequence[Call], accepted: Sequence[AcceptedCall]) -> bool:
    """Return whether the calls match the accepted ones one to one; as published, each takes the first that fits."""
    remaining = list(calls)
    if len(calls) != len(accepted):
        return False
    for each in accepted:
        if (index := next((index for index, call in enumerate(remaining) if each.fits(call)), None)) is None:
            return False
        del remaining[index]
    return True


def accepted_calls(task: Task) -> list[AcceptedCall]:
    """Return the calls that a task requires. Raises: JudgeError if the truth lists none."""
    try:
        calls = [
            AcceptedCall(
                row["name"],
                list(row["required"]),
                {name: (kind, items) for name, (kind, items) in row["types"].items()},
                dict(row["accepted"]),
                row.get("language", ""),
                {name: (kind, items) for name, (kind, items) in row.get("written", {}).items()},
            )
            for row in task.truth["calls"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise JudgeError(
            f"{task.id}: a row of truth['calls'] does not describe an accepted call: {error!r}."
        ) from error
    unknown = {kind for call in calls for pair in call.types.values() for kind in pair} - {*TYPES, None}
    if unknown:
        raise JudgeError(
            f"{task.id}: truth['calls'] uses the types {sorted(map(str, unknown))}. Use only {', '.join(TYPES)}."
        )
    return calls


def _fits(value: Any, accepted: Sequence[Any], kind: str, items: str | None) -> bool:
    """Return whether a value has the right type and is accepted."""
    expected: Any = TYPES[kind]
    of_items: Any = TYPES[items] if items is not None else None
    if kind == "float" and type(value) is int:
        value = float(value)
    if not _is_typed(value, accepted, expected, of_items):
        return False
    named = _type_of(accepted)
    if type(value) is not expected or (named is not None and named is not expected):
        return value in accepted  # such as a variable's name, which may be accepted
    if expected is dict:
        return any(_dict_fits(value, each) for each in accepted if each != LEFT_OUT)
    if expected is list and of_items is dict:
        return any(_dicts_fit(value, each) for each in accepted if isinstance(each, list | str))
    if expected is list:
        lists = [[_folded(item) for item in each] for each in accepted if isinstance(each, list | str)]
        return [_folded(item) for item in value] in lists
    return _folded(value) in [_folded(each) for each in accepted]


def _is_typed(value: Any, accepted: Sequence[Any], expected: Any, of_items: Any) -> bool:
    """Return whether a value has the declared type, its items too if it is a list; or else the accepted values'
    type.
    """
    if type(value) is not expected:
        return type(value) is _type_of(accepted)
    if of_items is None:
        return True
    return any(
        not isinstance(each, list) or all(_is_typed(item, each, of_items, None) for item in value) for each in accepted
    )


def _type_of(accepted: Sequence[Any]) -> type | None:
    """Return the type of the first accepted value that has one."""
    return next((type(value) for value in accepted if value != LEFT_OUT), None)


def _dicts_fit(values: Sequence[Any], accepted: Any) -> bool:
    return len(values) == len(accepted) and all(map(_dict_fits, values, accepted))


def _dict_fits(value: Any, accepted: Any) -> bool:
    """Return whether each key has an accepted value, and all missing keys are optional."""
    if not isinstance(value, dict) or not isinstance(accepted, dict) or not value.keys() <= accepted.keys():
        return False
    if not all(_folded(item) in [_folded(each) for each in accepted[key]] for key, item in value.items()):
        return False
    return all(LEFT_OUT in accepted[key] for key in accepted.keys() - value.keys())


def _folded(value: Any) -> Any:
    """Return text folded for comparison; anything else unchanged."""
    return value.translate(_IGNORED).lower().replace("'", '"') if isinstance(value, str) else value
