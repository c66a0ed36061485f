"""The walk through an agent's text that call formats share: from call to call, past thoughts."""

from __future__ import annotations

import re

from agentgym.messages import Call
from agentgym.policy.formats.contract import (
    MAX_CALLS,
    Malformed,
    add_too_many_calls_error,
    malformed_call,
    strict_json_at,
)
from agentgym.policy.formats.json_calls import call_of
from agentgym.thoughts import OPENING, end_of_thought, split_thoughts, thought_ranges

_BETWEEN = re.compile(r"(?:[\s;,]|```(?:json|tool_call|tool_code)?(?=\s|\Z))*")
_ARGUMENTS = ("arguments", "parameters")


class CallWalk:
    """Goes from the opening of a call to the next. The reader of the call adds it to `calls` and sets `at` behind it.

    A thought that begins outside of a call hides what stands in it; in a call, the mark of a thought is part of an
    argument.

    Args:
        opening: what a call begins with. It matches in linear time.
        example: the right shape of a call, for errors.

    Attributes:
        at: where the reader stands. calls: those read so far. done: whether no further call is looked for.
    """

    def __init__(self, text: str, opening: re.Pattern[str], example: str) -> None:
        self.text, self.example = text, example
        self.at, self.calls, self.done = 0, list[Call](), False
        self._opening, self._outside = opening, list[str]()

    def next_call(self) -> re.Match[str] | None:
        """Go to the opening of the next call; None if there is none, or too many were read."""
        opening, begin = None if self.done else self._opening.search(self.text, self.at), self.at
        while opening and (thought := OPENING.search(self.text, begin, opening.start())):
            begin = end_of_thought(self.text, thought)
            if opening.start() < begin:
                opening = self._opening.search(self.text, begin)
        end = len(self.text) if opening is None else opening.start()
        self._outside.append(self.text[self.at : end])
        self.at = end
        if opening is not None and len(self.calls) >= MAX_CALLS:
            more = sum(1 for _ in self._opening.finditer(self.text, opening.start()))
            add_too_many_calls_error(self.calls, more, self.example)
            self.at, opening = len(self.text), None
        return opening

    def refuse(self, problem: str, name: str = "") -> None:
        """Add a malformed call. `name`: of the tool, where it could be read."""
        self.calls.append(malformed_call(len(self.calls), problem, self.example, name))

    @property
    def content(self) -> str:
        """What stands outside of calls, thoughts included, stripped."""
        return "".join(self._outside).strip()

    @property
    def speech(self) -> str:
        """What stands outside of calls and thoughts."""
        return split_thoughts(self.content)[1]

    def message(self, problem: str | None = None) -> tuple[str, tuple[Call, ...]]:
        """Return what CallFormat.parse returns.

        A message that is JSON calls and nothing else is read, whatever marks the format has.

        Args:
            problem: what is wrong with a text that was meant as a call and held none.
        """
        content = self.content
        if not self.calls:
            if calls := bare_calls(self.speech, self.example):
                thoughts = (content[begin:end] for begin, end in thought_ranges(content))
                return "".join(thoughts), tuple(calls)
            if problem is not None:
                self.refuse(problem)
        return content, tuple(self.calls)


def bare_calls(text: str, example: str) -> list[Call]:
    """Return the calls of a text that is JSON objects with a name and arguments alone, bare, in a list, or in fences.

    Empty if the text is or holds anything else. Some models write calls so whatever their template does.
    """
    calls, at, more = list[Call](), 0, 0
    while (at := _end_of(_BETWEEN, text, at)) < len(text):
        if text[at] not in "{[":
            return []
        try:
            value, at = strict_json_at(text, at)
        except Malformed:
            return []
        for each in value if isinstance(value, list) else [value]:
            key = next((key for key in _ARGUMENTS if isinstance(each, dict) and key in each), "")
            if not key or not isinstance(each.get("name"), str):
                return []
            if len(calls) < MAX_CALLS:
                calls.append(call_of({"name": each["name"], key: each[key]}, len(calls), example, key))
            else:
                more += 1
    if more:
        add_too_many_calls_error(calls, more, example)
    return calls


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
