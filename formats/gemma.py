"""Calls as Gemma writes them: `call:query{sql:<|"|>SELECT 1<|"|>,limit:3}`, between the marks of its generation."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agentgym import Call
from agentgym.policy import formats

from .blocks import read_blocks
from .literals import LiteralReader

NAME = re.compile(r"[\w.-]{1,128}")


class Gemma4:
    """One call between two special tokens; each string is also between special tokens, without any escaping."""

    name = "gemma4"
    stop: tuple[str, ...] = ()
    opening, closing, delimiter = "<|tool_call>", "<tool_call|>", '<|"|>'

    @property
    def control(self) -> tuple[str, ...]:
        """The special tokens of a call."""
        return self.opening, self.closing, self.delimiter

    @property
    def example(self) -> str:
        """The form of a call."""
        quote = self.delimiter
        return f"{self.opening}call:tool_name{{argument:{quote}value{quote},number:3}}{self.closing}"

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return one line of JSON Schema per tool, and the form of a call."""
        lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
        return f"You may call these tools:\n{lines}\nWrite each call like this: {self.example}"

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text. Raises: ValueError for a string that contains its closing mark."""
        return "".join(map(self._render, calls))

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat."""
        strays = (self.closing, self.delimiter)
        return read_blocks(text, self.opening, self._read, example=self.example, strays=strays)

    def _render(self, call: Call) -> str:
        body = ",".join(f"{key}:{self._literal(value)}" for key, value in _sorted(call.arguments))
        text = f"{self.opening}call:{call.name}{{{body}}}{self.closing}"
        return formats.refuse_unless_read_back(self, call, call.arguments, text)

    def _literal(self, value: Any) -> str:
        if isinstance(value, str):
            return self.delimiter + value + self.delimiter
        if isinstance(value, dict):
            return "{" + ",".join(f"{self._key(key)}:{self._literal(item)}" for key, item in _sorted(value)) + "}"
        if isinstance(value, list):
            return "[" + ",".join(map(self._literal, value)) + "]"
        return json.dumps(value)

    def _key(self, key: str) -> str:
        return key if NAME.fullmatch(key) else self._literal(key)

    def _read(self, text: str, begin: int, index: int) -> tuple[list[Call], int]:
        reader = LiteralReader(text[: begin + formats.MAX_CALL_CHARS], begin, delimiter=self.delimiter)
        reader.expect("call:")
        name = reader.match(NAME, "the name of a tool")
        reader.expect("{")
        arguments = reader.mapping("}", ":")
        reader.expect(self.closing)
        return [Call(name, arguments, f"call_{index}")], reader.at


def _sorted(arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the arguments in the template's order, Jinja's `dictsort`."""
    return sorted(arguments.items(), key=lambda item: item[0].lower())


class FunctionGemma(Gemma4):
    """The same format with the marks of FunctionGemma."""

    name = "functiongemma"
    opening, closing, delimiter = "<start_function_call>", "<end_function_call>", "<escape>"
