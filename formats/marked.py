"""Calls whose arguments are between marks, without any quoting, as Qwen's XML and GLM write them.

The syntax has no types: every argument is read as text; coercion.py of agentgym.policy.formats converts it to numbers
and lists by the tool's schema. A value ends at a closing mark that is followed by a further argument or the end of the
call, so that a value may contain the mark itself.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from agentgym import Call
from agentgym.policy import formats

from .blocks import read_blocks


class MarkedArguments(ABC):
    """Base of the formats. A subclass sets the marks, each a regular expression that matches in linear time.

    Attributes:
        opening: matches the mark with which a call begins.
        head: matches the text after that mark, with the group `name`.
        key: matches the beginning of an argument, with the group `key`.
        value_end: matches the end of an argument. It looks ahead for the text that must follow.
        end: matches the end of the call.

    Args:
        between: the text between two calls.
    """

    name: str
    stop: tuple[str, ...] = ()
    untyped = True
    opening: str
    head: re.Pattern[str]
    key: re.Pattern[str]
    value_end: re.Pattern[str]
    end: re.Pattern[str]
    strays: tuple[str, ...]
    example: str
    layouts: Sequence[dict[str, Any]] = ({}, {"between": ""})

    def __init__(self, *, between: str = "\n") -> None:
        self._between = between

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return one line of JSON Schema per tool, and the form of a call."""
        lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
        return f"You may call these tools:\n{lines}\nWrite each call like this, an argument as it is:\n{self.example}"

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text. Raises: ValueError for an argument that contains its own closing mark."""
        return self._between.join(map(self._render, calls))

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat. Every argument is a string."""
        return read_blocks(text, self.opening, self._read, example=self.example, strays=self.strays)

    @abstractmethod
    def write(self, name: str, arguments: dict[str, str]) -> str:
        """Return one call as text."""

    def _render(self, call: Call) -> str:
        as_text = {
            key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in call.arguments.items()
        }
        return formats.refuse_unless_read_back(self, call, as_text, self.write(call.name, as_text))

    def _read(self, text: str, begin: int, index: int) -> tuple[list[Call], int]:
        text = text if len(text) - begin <= formats.MAX_CALL_CHARS else text[: begin + formats.MAX_CALL_CHARS]
        head = self.head.match(text, begin)
        if head is None:
            raise formats.Malformed(
                f"The call does not begin in this format's way, but with {formats.excerpt(text[begin:].strip())}."
            )
        name, arguments, at = formats.named(head["name"]), dict[str, Any](), head.end()
        while key := self.key.match(text, at):
            value_end = self.value_end.search(text, key.end())
            if value_end is None:
                raise formats.Malformed(
                    f"The argument {formats.excerpt(key['key'], 30)} of the call to {name} is not closed."
                )
            if key["key"] in arguments:
                raise formats.Malformed(
                    f"The argument {formats.excerpt(key['key'], 30)} of the call to {name} is given twice."
                )
            arguments[key["key"]] = text[key.end() : value_end.start()]
            at = value_end.end()
        end = self.end.match(text, at)
        if end is None:
            raise formats.Malformed(
                f"The call to {name} is not closed: after its arguments comes {formats.excerpt(text[at:].strip())}."
            )
        return [Call(name, arguments, f"call_{index}")], end.end()
