"""Calls as LFM2 writes them, like Python: `<|tool_call_start|>[query(sql='SELECT 1', limit=3)]<|tool_call_end|>`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agentgym import Call
from agentgym.policy import formats

from .blocks import read_blocks
from .literals import LiteralReader

OPEN, CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"
EXAMPLE = f"{OPEN}[tool_name(argument='value', number=3)]{CLOSE}"
NAME = re.compile(r"[\w.-]{1,128}")
_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"})


class Lfm2:
    """A list of calls between two special tokens, with keyword arguments only."""

    name = "lfm2"
    stop: tuple[str, ...] = ()
    control = (OPEN, CLOSE)

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return the list of tools in the model's own form, and the form of a call."""
        written = json.dumps([tool.get("function", tool) for tool in tools], ensure_ascii=False)
        return f"List of tools: {written}\nWrite calls like this: {EXAMPLE}"

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text, all in one list. Raises: ValueError for a name that is not valid in Python."""
        bodies = [python_call(call.name, call.arguments) for call in calls]
        for call, body in zip(calls, bodies, strict=True):
            formats.refuse_unless_read_back(self, call, call.arguments, f"{OPEN}[{body}]{CLOSE}")
        return f"{OPEN}[{', '.join(bodies)}]{CLOSE}"

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat."""
        return read_blocks(text, OPEN, _read, example=EXAMPLE, strays=(CLOSE,))


def _read(text: str, begin: int, index: int) -> tuple[list[Call], int]:
    reader = LiteralReader(text[: begin + formats.MAX_CALL_CHARS], begin)
    in_list = reader.skip("[")
    calls = read_calls(reader, index)
    if in_list:
        reader.expect("]")
    reader.expect(CLOSE)
    return calls, reader.at


def read_calls(reader: LiteralReader, index: int) -> list[Call]:
    """Read calls in Python syntax with commas between them, numbered from `index`. Raises: Malformed."""
    calls = list[Call]()
    while len(calls) <= formats.MAX_CALLS:
        name = reader.match(NAME, "the name of a tool")
        reader.expect("(")
        calls.append(Call(name, reader.mapping(")", "="), f"call_{index + len(calls)}"))
        if not reader.skip(","):
            break
    return calls


def python_call(name: str, arguments: dict[str, Any]) -> str:
    """Return a call in Python syntax."""
    return f"{name}({', '.join(f'{key}={_literal(value)}' for key, value in arguments.items())})"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value.translate(_ESCAPES)}'"
    return str(value) if value is None or isinstance(value, bool) else json.dumps(value, ensure_ascii=False)
