"""Calls as a bare Python list, `[query(sql="SELECT 1", limit=3)]`: as Gemma 3, Llama 3.2 and 4 do if prompted."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agentgym import Call
from agentgym.policy import formats

from .lfm2 import python_call, read_calls
from .literals import LiteralReader

EXAMPLE = '[tool_name(argument="value", number=3)]'
_OPENING = re.compile(r"^[ \t]*\[(?=\s{0,8}[A-Za-z_][\w.-]{0,127}\()", re.MULTILINE)


class Pythonic:
    """A list of calls with keyword arguments, which begins on a line of its own.

    Args:
        python: write strings, True and None as Python does, instead of as JSON. Both forms are read.
    """

    name = "pythonic"
    layouts: Sequence[dict[str, bool]] = ({}, {"python": True})
    stop: tuple[str, ...] = ()

    def __init__(self, *, python: bool = False) -> None:
        self._python = python

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return one line of JSON Schema per tool, and the form of a call."""
        lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
        return f"You may call these tools:\n{lines}\nTo call some, write this and nothing else: {EXAMPLE}"

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text, all in one list. Raises: ValueError for a name that is not valid in Python."""
        bodies = [self._write(call) for call in calls]
        for call, body in zip(calls, bodies, strict=True):
            formats.refuse_unless_read_back(self, call, call.arguments, f"[{body}]")
        return f"[{', '.join(bodies)}]"

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat."""
        walk = formats.CallWalk(text, _OPENING, EXAMPLE)
        while opening := walk.next_call():
            try:
                calls, walk.at = _read(text, opening.end(), len(walk.calls))
                walk.calls += calls[: formats.MAX_CALLS - len(walk.calls)]
            except formats.Malformed as malformed:
                walk.refuse(str(malformed))
                walk.at = len(text)
        return walk.message()

    def _write(self, call: Call) -> str:
        if self._python:
            return python_call(call.name, call.arguments)
        pairs = (f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in call.arguments.items())
        return f"{call.name}({', '.join(pairs)})"


def _read(text: str, begin: int, index: int) -> tuple[list[Call], int]:
    reader = LiteralReader(text[: begin + formats.MAX_CALL_CHARS], begin)
    calls = read_calls(reader, index)
    reader.expect("]")
    return calls, reader.at
