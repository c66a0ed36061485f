"""Calls as one JSON list between two special tokens, as Phi-4 and Cohere's Command models write them."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import override

from agentgym import Call, thoughts
from agentgym.policy import formats

from .blocks import read_blocks

_RESPONSE = ("<|START_RESPONSE|>", "<|END_RESPONSE|>")
_THINKING = ("<|START_THINKING|>", "<|END_THINKING|>")
_SPACE = re.compile(r"\s*")


class JsonBlock(ABC):
    """Base of the formats. A subclass sets the two tokens, and how one call is written.

    Attributes:
        opening, closing: the special tokens around the list.
        example: a list of one call.
    """

    name: str
    stop: tuple[str, ...] = ()
    opening: str
    closing: str
    example: str

    @property
    def control(self) -> tuple[str, ...]:
        """The special tokens in calls."""
        return (self.opening, self.closing)

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return one line of JSON Schema per tool, and the form of a call."""
        lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
        return f"You may call these tools:\n{lines}\nWrite calls like this: {self._example}"

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text, all in one list, in which special tokens are escaped."""
        return self.opening + self.write(calls).replace("<|", "\\u003c|") + self.closing

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat."""
        return read_blocks(text, self.opening, self._read, example=self._example, strays=(self.closing,))

    @abstractmethod
    def write(self, calls: tuple[Call, ...]) -> str:
        """Return the list as JSON text."""

    @abstractmethod
    def call(self, value: Any, index: int) -> Call:
        """Return the call that an entry of the list describes."""

    @property
    def _example(self) -> str:
        return self.opening + self.example + self.closing

    def _read(self, text: str, begin: int, index: int) -> tuple[list[Call], int]:
        value, end = formats.strict_json_at(text, _after_space(text, begin))
        values, end = value if isinstance(value, list) else [value], _after_space(text, end)
        if not text.startswith(self.closing, end):
            raise formats.Malformed(
                f"The calls are not closed: {self.closing} is missing before {formats.excerpt(text[end:])}."
            )
        return [self.call(each, at) for at, each in enumerate(values, index)], end + len(self.closing)


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


class Phi4(JsonBlock):
    """`<|tool_call|>[{"name": ..., "arguments": {...}}]<|/tool_call|>`, as Phi-4-mini writes it.

    Args:
        apart: write each call between its own marks, without a list.
    """

    name = "phi4"
    layouts: Sequence[dict[str, bool]] = ({}, {"apart": True})
    opening, closing = "<|tool_call|>", "<|/tool_call|>"
    example = '[{"name": "tool_name", "arguments": {"argument": "value"}}]'

    def __init__(self, *, apart: bool = False) -> None:
        self._apart = apart

    @override
    def render(self, calls: tuple[Call, ...]) -> str:
        if not self._apart:
            return super().render(calls)
        written = (super(Phi4, self).render((call,)) for call in calls)
        return "".join(block.replace("[", "", 1).removesuffix("]" + self.closing) + self.closing for block in written)

    @override
    def write(self, calls: tuple[Call, ...]) -> str:
        return json.dumps([{"name": call.name, "arguments": call.arguments} for call in calls], ensure_ascii=False)

    @override
    def call(self, value: Any, index: int) -> Call:
        return formats.call_of(value, index, self._example)


class Cohere(JsonBlock):
    """`<|START_ACTION|>[{"tool_call_id": "0", "tool_name": ..., "parameters": {...}}]<|END_ACTION|>`, as of R7B.

    The ids are the numbers of the calls in the conversation.
    """

    name = "cohere"
    ids = formats.CallIds(lambda _, number: str(number), re.compile(r"\d{1,9}"), '"tool_call_id": "{id}"')
    opening, closing = "<|START_ACTION|>", "<|END_ACTION|>"
    example = '[\n    {"tool_call_id": "0", "tool_name": "tool_name", "parameters": {"argument": "value"}}\n]'

    @property
    @override
    def control(self) -> tuple[str, ...]:
        return (self.opening, self.closing, *_RESPONSE, *_THINKING)

    def compose(self, text: str, calls: tuple[Call, ...]) -> str:
        """Return a whole message: thoughts between their marks; text after its own mark if no calls follow."""
        thought, speech = thoughts.split_thoughts(text)
        begin = f"{_THINKING[0]}{thought}{_THINKING[1]}" if thought else ""
        return begin + (speech + self.render(calls) if calls else _RESPONSE[0] + speech)

    @override
    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        content, calls = super().parse(text)
        return content.replace(_RESPONSE[0], "").replace(_RESPONSE[1], "").strip(), calls

    @override
    def write(self, calls: tuple[Call, ...]) -> str:
        entries = [
            {"tool_call_id": self.ids.of(call, index), "tool_name": call.name, "parameters": call.arguments}
            for index, call in enumerate(calls)
        ]
        return "[\n    " + ",\n    ".join(json.dumps(entry, ensure_ascii=False) for entry in entries) + "\n]"

    @override
    def call(self, value: Any, index: int) -> Call:
        call_id = self.ids.read(value.get("tool_call_id") if isinstance(value, dict) else None, index)
        if isinstance(value, dict) and "tool_name" in value:
            value = {"name": value["tool_name"], **{key: value[key] for key in ("parameters",) if key in value}}
        return replace(formats.call_of(value, index, self._example, "parameters"), id=call_id)
