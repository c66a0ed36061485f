"""Calls as Mistral's models write them, after the special token `[TOOL_CALLS]`: a JSON list, or name and arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agentgym.messages import Call
from agentgym.policy.formats.blocks import read_blocks
from agentgym.policy.formats.contract import Malformed, excerpt, kind_of, strict_json_at
from agentgym.policy.formats.json_calls import call_of, named

OPEN, ID, ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_NAME = re.compile(r"\s*(?P<name>[^\[\]{}\s]{1,300})\s*(?:\[CALL_ID\][\w-]{0,64})?(?=\[ARGS\]|\s*\{)")
_SPACE = re.compile(r"\s*")


class Mistral:
    """`[TOOL_CALLS] [{"name": ..., "arguments": {...}}]`, as up to Mistral Small 3.1; the newer way is read as well."""

    name = "mistral"
    stop: tuple[str, ...] = ()
    control: tuple[str, ...] = (OPEN, ID, ARGUMENTS)
    example = OPEN + '[{"name": "tool_name", "arguments": {"argument": "value"}}]'

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return the list of tools as these models know it, and the shape of a call."""
        written = json.dumps(list(tools), ensure_ascii=False)
        return f"[AVAILABLE_TOOLS]{written}[/AVAILABLE_TOOLS]\nWrite calls like this: {self.example}"

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text, all in one list."""
        return OPEN + _json([{"name": call.name, "arguments": call.arguments} for call in calls])

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat."""
        return read_blocks(text, OPEN, self._read, example=self.example, strays=(ARGUMENTS,))

    def _read(self, text: str, begin: int, index: int) -> tuple[list[Call], int]:
        begin = _after_space(text, begin)
        if text.startswith("[", begin):
            values, end = strict_json_at(text, begin)
            return [call_of(value, at, self.example) for at, value in enumerate(values, index)], end
        name = _NAME.match(text, begin)
        if name is None:
            raise Malformed(f"{OPEN} is followed by {excerpt(text[begin:])}, which is no call.")
        arguments, end = strict_json_at(
            text, _after_space(text, name.end() + len(ARGUMENTS) * (text[name.end()] == "["))
        )
        if not isinstance(arguments, dict):
            raise Malformed(f"The arguments of {name['name']} must be a JSON object, not {kind_of(arguments)}.")
        return [Call(named(name["name"]), arguments, f"call_{index}")], end


class MistralArgs(Mistral):
    """`[TOOL_CALLS]name[ARGS]{...}`, as Magistral and Mistral Small 3.2 write it; the older way is read too."""

    name = "mistral_args"
    example = OPEN + "tool_name" + ARGUMENTS + '{"argument": "value"}'

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text, each after its own mark."""
        return "".join(f"{OPEN}{call.name}{ARGUMENTS}{_json(call.arguments)}" for call in calls)


def _json(value: Any) -> str:
    """Return JSON in which special tokens are escaped."""
    written = json.dumps(value, ensure_ascii=False)
    for mark in (OPEN, ID, ARGUMENTS):
        written = written.replace(mark, "\\u005b" + mark[1:])
    return written


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
