"""Hermes calls, as Qwen and many others write them: `<tool_call>{"name": "query", "arguments": {...}}</tool_call>`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agentgym.messages import Call
from agentgym.policy.formats.contract import (
    MAX_CALLS,
    Malformed,
    add_too_many_calls_error,
    excerpt,
    malformed_call,
    strict_json,
)
from agentgym.policy.formats.json_calls import call_of
from agentgym.policy.formats.reader import CallWalk

OPEN, CLOSE = "<tool_call>", "</tool_call>"
EXAMPLE = OPEN + '{"name": "tool_name", "arguments": {"argument": "value"}}' + CLOSE
_OPENING = re.compile(OPEN)
MAX_REJOINED = 8  # calls per message whose arguments may contain the tags; bounds how much is parsed again


class Hermes:
    """One JSON object in tags per call, several to a message, text around them allowed.

    Written compactly on one line unless `newlines`, which is how Qwen's own template writes it. A policy takes the
    layout of its chat template.
    """

    name = "hermes"
    layouts: Sequence[dict[str, bool]] = ({}, {"newlines": True})
    stop: tuple[str, ...] = ()

    def __init__(self, *, newlines: bool = False) -> None:
        self._open, self._close = (OPEN + "\n", "\n" + CLOSE) if newlines else (OPEN, CLOSE)

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return one line of JSON Schema per tool, and the form of a call."""
        lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
        return f"You may call these tools:\n{lines}\nWrite each call like this: {EXAMPLE}"

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text. Tags inside arguments are escaped, so that they cannot end the call."""
        return "\n".join(self._open + _body(call) + self._close for call in calls)

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat. A lone closing tag and a bare JSON call without tags are malformed calls too."""
        reader, rejoined = CallWalk(text, _OPENING, EXAMPLE), 0
        while opening := reader.next_call():
            begin = opening.end()
            end, closed = _end_of_call(text, begin)
            if closed and rejoined < MAX_REJOINED and _inside_string(text[begin:end]):
                rejoined += 1
                end, closed = _end_after_strings(text, begin, end)
            reader.calls += _read(text[begin:end], closed, len(reader.calls))
            reader.at = end + len(CLOSE) if closed else end
        return reader.message(_looks_like_call(reader.speech))


def _body(call: Call) -> str:
    body = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
    return body.replace(CLOSE, "<\\/tool_call>").replace(OPEN, "\\u003ctool_call>")


def _end_of_call(text: str, begin: int) -> tuple[int, bool]:
    """Return the end of the call that begins here, and whether a closing tag ends it."""
    close = text.find(CLOSE, begin)
    following = text.find(OPEN, begin, close if close >= 0 else len(text))
    if following >= 0 and (close < 0 or not _inside_string(text[begin:following])):
        return following, False
    return (close, True) if close >= 0 else (len(text), False)


def _inside_string(text: str) -> bool:
    """Return whether JSON text ends within a string, that is, after an odd number of unescaped quotes."""
    return text.replace("\\\\", "").replace('\\"', "").count('"') % 2 == 1


def _end_after_strings(text: str, begin: int, first: int) -> tuple[int, bool]:
    """Return the first closing tag that is not inside a JSON string; the very first tag if there is none."""
    inside, at, close = False, begin, first
    while close >= 0:
        inside ^= _inside_string(text[at:close])
        if not inside:
            return close, True
        at, close = close, text.find(CLOSE, close + 1)
    return first, True


def _read(body: str, closed: bool, index: int) -> list[Call]:
    """Return the calls in one pair of tags; some models, such as SmolLM2, write a list of calls there."""
    try:
        if not closed:
            raise Malformed(f"The call is not closed: {CLOSE} is missing after {excerpt(body.strip())}.")
        value = strict_json(body)
    except Malformed as malformed:
        return [malformed_call(index, str(malformed), EXAMPLE)]
    is_list = isinstance(value, list) and any(isinstance(each, dict) for each in value)
    values = value if is_list else [value]
    calls = [call_of(each, at, EXAMPLE) for at, each in enumerate(values[: MAX_CALLS - index], index)]
    if more := len(values) - len(calls):
        add_too_many_calls_error(calls, more, EXAMPLE)
    return calls


def _looks_like_call(content: str) -> str | None:
    """Return what is wrong with text that is meant as a call but has no opening tag; None for plain text."""
    if CLOSE in content:
        return f"{CLOSE} stands without {OPEN} before it."
    if content.startswith("{") and content.endswith("}") and '"name"' in content and '"arguments"' in content:
        return f"A call must stand between {OPEN} and {CLOSE}."
    return None
