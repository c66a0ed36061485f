"""Calls as Llama 3.1 and later write them: the message is `{"name": "query", "parameters": {...}}` and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agentgym import Call, thoughts
from agentgym.policy import formats

from .lfm2 import NAME
from .literals import LiteralReader

TAG = "<|python_tag|>"
EXAMPLE = '{"name": "tool_name", "parameters": {"argument": "value"}}'
_OPENING = re.compile(re.escape(TAG) + r'|^[ \t]*\{(?=\s*"(?:name|type|parameters|arguments)")', re.MULTILINE)
_BETWEEN = re.compile(r"[\s;,]*")
_MEANT = re.compile(r'"name"\s*:')
_ARGUMENTS = re.compile(r'"(?:parameters|arguments)"\s*:')
_BUILT_IN = re.compile(r"\s*[\w.-]{1,128}\.call\(")


class Llama3:
    """Bare JSON objects, separated by `; `. After `<|python_tag|>` also `name.call(argument="value")`.

    An object that has a name but no parameters is data, not a call: an answer may end with such JSON.
    """

    name = "llama3"
    stop: tuple[str, ...] = ()
    control = (TAG,)

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return one line of JSON Schema per tool, and the form of a call."""
        lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
        return f"You may call these tools:\n{lines}\nTo call one, write this and nothing else: {EXAMPLE}"

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text."""
        bodies = [{"name": call.name, "parameters": call.arguments} for call in calls]
        return "; ".join(json.dumps(body, ensure_ascii=False) for body in bodies)

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat. A call may also begin on a new line after some text."""
        reader = formats.CallWalk(text, _OPENING, EXAMPLE)
        begin = 0
        while thought := thoughts.OPENING.match(text, _after_space(text, begin)):
            begin = thoughts.end_of_thought(text, thought)
        reader.done = text.startswith("```", _after_space(text, begin))  # a message in a code fence has no calls
        while opening := reader.next_call():
            meant = opening.group() == TAG
            end = _read_all(reader, opening.end() if meant else opening.start(), meant=meant)
            reader.at, reader.done = (opening.start(), True) if end is None else (end, False)
        return reader.message()


def _read_all(reader: formats.CallWalk, at: int, *, meant: bool) -> int | None:
    """Add the consecutive calls that begin at `at`. Returns: where they end; None if there are none."""
    before, end = len(reader.calls), None
    at = _after_space(reader.text, at)
    while at < len(reader.text) and len(reader.calls) < formats.MAX_CALLS:
        try:
            call, at = _read(reader.text, at, len(reader.calls), meant, is_first=len(reader.calls) == before)
        except formats.Malformed as malformed:
            reader.refuse(str(malformed))
            return len(reader.text)
        if call is None:
            break
        reader.calls.append(call)
        end, at = at, _after_space(reader.text, at)
    return end


def _read(text: str, at: int, index: int, meant: bool, *, is_first: bool) -> tuple[Call | None, int]:
    """Return the call that begins at `at`, or None, and where it ends. Raises: Malformed for a broken call.

    `meant`: the special mark came before, so the text must be a call; otherwise JSON that looks like data is none.
    """
    if meant and _BUILT_IN.match(text, at):
        reader = LiteralReader(text, at)
        name = reader.match(NAME, "the name of a tool").removesuffix(".call")
        reader.expect("(")
        return Call(name, reader.mapping(")", "="), f"call_{index}"), reader.at
    if not text.startswith("{", at):
        if meant and is_first:
            raise formats.Malformed(f"{TAG} must be followed by a call.")
        return None, at
    try:
        value, end = formats.strict_json_at(text, at)
    except formats.Malformed:
        if meant or (_MEANT.search(text, at) and _ARGUMENTS.search(text, at)):
            raise
        return None, at
    key = "arguments" if "arguments" in value and "parameters" not in value else "parameters"
    if "name" not in value or (key not in value and not meant):
        return None, at
    call = formats.call_of({"name": value["name"], key: value.get(key, {})}, index, EXAMPLE, key)
    return call, end


def _after_space(text: str, at: int) -> int:
    space = _BETWEEN.match(text, at)
    return space.end() if space else at
