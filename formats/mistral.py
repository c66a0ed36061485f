"""Calls as Mistral's models write them, after the special token `[TOOL_CALLS]`: a JSON list, or name and arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentgym import Call
from agentgym.policy import formats

from .blocks import read_blocks

OPEN, ID, ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_NAME = re.compile(r"\s*(?P<name>[^\[\]{}\s]{1,300})\s*(?:\[CALL_ID\](?P<id>[\w-]{0,64}))?(?=\[ARGS\]|\s*\{)")
_SPACE = re.compile(r"\s*")


class Mistral:
    """`[TOOL_CALLS] [{"name": ..., "arguments": {...}}]`, as up to Mistral Small 3.1; the newer form is read as well.

    Args:
        ids: write an id with each call.
        space: write a space before the list.
    """

    name = "mistral"
    layouts: Sequence[dict[str, bool]] = ({}, {"ids": True}, {"space": True}, {"ids": True, "space": True})
    stop: tuple[str, ...] = ()
    control: tuple[str, ...] = (OPEN, ID, ARGUMENTS)
    example = OPEN + '[{"name": "tool_name", "arguments": {"argument": "value"}}]'

    def __init__(self, *, ids: bool = False, space: bool = False) -> None:
        self.ids = formats.NINE_LETTERS if ids else None
        self._space = " " * space

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return the list of tools in these models' form, and the form of a call."""
        written = json.dumps(list(tools), ensure_ascii=False)
        return f"[AVAILABLE_TOOLS]{written}[/AVAILABLE_TOOLS]\nWrite calls like this: {self.example}"

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text, all in one list."""
        values = [
            {"name": call.name, "arguments": call.arguments} | ({"id": self.ids.of(call, index)} if self.ids else {})
            for index, call in enumerate(calls)
        ]
        return OPEN + self._space + _json(values)

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat."""
        return read_blocks(text, OPEN, self._read, example=self.example, strays=(ARGUMENTS,))

    def _read(self, text: str, begin: int, index: int) -> tuple[list[Call], int]:
        begin = _after_space(text, begin)
        if text.startswith("[", begin):
            values, end = formats.strict_json_at(text, begin)
            return [_call(value, at, self.example) for at, value in enumerate(values, index)], end
        name = _NAME.match(text, begin)
        if name is None:
            raise formats.Malformed(f"{OPEN} must be followed by a call, not by {formats.excerpt(text[begin:])}.")
        arguments, end = formats.strict_json_at(
            text, _after_space(text, name.end() + len(ARGUMENTS) * (text[name.end()] == "["))
        )
        if not isinstance(arguments, dict):
            raise formats.Malformed(
                f"The arguments of {name['name']} must be a JSON object, not {formats.kind_of(arguments)}."
            )
        return [Call(formats.named(name["name"]), arguments, formats.NINE_LETTERS.read(name["id"], index))], end


class MistralArgs(Mistral):
    """`[TOOL_CALLS]name[ARGS]{...}`, as Magistral and Mistral Small 3.2 write it; the older form is read too.

    Args:
        ids: write an id after each name.
    """

    name = "mistral_args"
    layouts: Sequence[dict[str, bool]] = ({}, {"ids": True})
    example = OPEN + "tool_name" + ARGUMENTS + '{"argument": "value"}'

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text, each after its own mark."""
        written = ""
        for index, call in enumerate(calls):
            call_id = ID + self.ids.of(call, index) if self.ids else ""
            written += f"{OPEN}{call.name}{call_id}{ARGUMENTS}{_json(call.arguments)}"
        return written


def _call(value: Any, index: int, example: str) -> Call:
    written = value.get("id") if isinstance(value, dict) else None
    return replace(formats.call_of(value, index, example), id=formats.NINE_LETTERS.read(written, index))


def _json(value: Any) -> str:
    """Return JSON in which special tokens are escaped."""
    written = json.dumps(value, ensure_ascii=False)
    for mark in (OPEN, ID, ARGUMENTS):
        written = written.replace(mark, "\\u005b" + mark[1:])
    return written


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
