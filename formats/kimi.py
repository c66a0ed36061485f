"""Calls as Kimi K2 writes them: between special tokens, `functions.name:index` and the arguments as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agentgym import Call
from agentgym.policy import formats

from .blocks import read_blocks

ALL_OPEN, ALL_CLOSE = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
OPEN, SEPARATOR, CLOSE = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_NUMBER = re.compile(r":\d{1,9}\Z")
_IDS = formats.CallIds(
    lambda name, number: f"functions.{name}:{number}", re.compile(r"functions\.[^\s<|]{1,128}:\d{1,9}")
)


class KimiK2:
    """`functions.name:index` and a JSON object, all calls of a message in one section.

    `functions.name:index` is the id of the call. The index counts the calls of the whole conversation.
    """

    name = "kimi_k2"
    stop: tuple[str, ...] = ()
    ids = _IDS
    control: tuple[str, ...] = (ALL_OPEN, ALL_CLOSE, OPEN, SEPARATOR, CLOSE)

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return one line of JSON Schema per tool, and the form of a call."""
        lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
        return f"You may call these tools:\n{lines}\nWrite calls like this: {_EXAMPLE}"

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text, with their ids; special tokens in arguments are escaped.

        A call whose id is not in this form is numbered within the message.
        """
        written = (_write(_IDS.of(call, index), call.arguments) for index, call in enumerate(calls))
        return ALL_OPEN + "".join(written) + ALL_CLOSE

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat."""
        content, calls = read_blocks(text, OPEN, _read, example=_EXAMPLE, strays=(ALL_OPEN, SEPARATOR, CLOSE))
        return content.replace(ALL_OPEN, "").replace(ALL_CLOSE, "").strip() if calls else content, calls


def _write(call_id: str, arguments: dict[str, Any]) -> str:
    body = json.dumps(arguments, ensure_ascii=False).replace("<|", "\\u003c|")
    return f"{OPEN}{call_id}{SEPARATOR}{body}{CLOSE}"


def _read(text: str, begin: int, index: int) -> tuple[list[Call], int]:
    end = text.find(CLOSE, begin)
    if end < 0:
        raise formats.Malformed(
            f"The call is not closed: {CLOSE} is missing after {formats.excerpt(text[begin:].strip())}."
        )
    written, separator, arguments = text[begin:end].partition(SEPARATOR)
    if not separator:
        raise formats.Malformed(f"{SEPARATOR} is missing in {formats.excerpt(written)}.")
    name = formats.named(_NUMBER.sub("", written.strip()).removeprefix("functions."))
    return [Call(name, formats.strict_object(arguments), _IDS.read(written.strip(), index))], end + len(CLOSE)


_EXAMPLE = ALL_OPEN + _write("functions.tool_name:0", {"argument": "value"}) + ALL_CLOSE
