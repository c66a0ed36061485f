"""The traversal of an agent's text that call formats share: from call to call, skipping thoughts."""

from __future__ import annotations

import re
from dataclasses import replace

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
    """Goes from one call's opening to the next. The format reads each call, adds it to `calls` and sets `at` after it.

    Text in a thought that begins outside a call is skipped; inside a call, the mark of a thought is part of an
    argument.

    Args:
        opening: matches the beginning of a call, in linear time.
        example: the right form of a call, for errors.

    Attributes:
        at: the current position.
        calls: the calls read so far.
        done: whether to stop looking for calls.
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
        """Add a malformed call. `name`: the name of the tool, if it could be read."""
        self.calls.append(malformed_call(len(self.calls), problem, self.example, name))

    @property
    def content(self) -> str:
        """The text outside calls, thoughts included, stripped."""
        return "".join(self._outside).strip()

    @property
    def speech(self) -> str:
        """The text outside calls and thoughts."""
        return split_thoughts(self.content)[1]

    def message(self, problem: str | None = None) -> tuple[str, tuple[Call, ...]]:
        """Return the result of CallFormat.parse.

        A message that consists only of bare JSON calls is read in every format.

        Args:
            problem: what is wrong with the text, if it was meant as a call but no call was found in it.
        """
        content, seen = self.content, set[str]()
        for index, call in enumerate(self.calls):
            if call.id in seen:  # the agent used an id twice
                self.calls[index] = replace(call, id=f"call_{index}")
            seen.add(call.id)
        if not self.calls:
            if calls := bare_calls(self.speech, self.example):
                thoughts = (content[begin:end] for begin, end in thought_ranges(content))
                return "".join(thoughts), tuple(calls)
            if problem is not None:
                self.refuse(problem)
        return content, tuple(self.calls)


def bare_calls(text: str, example: str) -> list[Call]:
    """Return the calls of a text that consists only of JSON objects with a name and arguments.

    The objects may be bare, in a list, or in fences; any other text gives an empty list. Some models write calls this
    way whatever their template does.
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
