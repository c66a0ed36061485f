"""Calls as DeepSeek writes them: between special tokens, the arguments as JSON, in V3 and R1 inside a code fence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentgym import Call
from agentgym.policy import formats

from .blocks import read_blocks

ALL_OPEN, ALL_CLOSE = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
OPEN, SEPARATOR, CLOSE = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
FENCE, FENCE_END = "```json\n", "\n```"


class DeepSeek:
    """`function<sep>name` and a fence of JSON, as V3 and R1 write it; the form of V3.1 is read as well.

    Args:
        apart: write each call on a separate line.
    """

    name = "deepseek"
    layouts: Sequence[dict[str, bool]] = ({}, {"apart": False})
    stop: tuple[str, ...] = ()
    control: tuple[str, ...] = (ALL_OPEN, ALL_CLOSE, OPEN, SEPARATOR, CLOSE)

    def __init__(self, *, apart: bool = True) -> None:
        self._between = "\n" * apart

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return one line of JSON Schema per tool, and the form of a call."""
        lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
        return f"You may call these tools:\n{lines}\nWrite calls like this:\n{self._example()}"

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text, all within one pair of marks."""
        return ALL_OPEN + self._between.join(self.write(c.name, _json(c.arguments)) for c in calls) + ALL_CLOSE

    def write(self, name: str, arguments: str) -> str:
        """Return one call as text, its arguments in JSON."""
        return f"{OPEN}function{SEPARATOR}{name}\n{FENCE}{arguments}{FENCE_END}{CLOSE}"

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat."""
        example = self._example()
        content, calls = read_blocks(text, OPEN, _read, example=example, strays=(ALL_OPEN, SEPARATOR, CLOSE))
        return content.replace(ALL_OPEN, "").replace(ALL_CLOSE, "").strip() if calls else content, calls

    def _example(self) -> str:
        return ALL_OPEN + self.write("tool_name", '{"argument": "value"}') + ALL_CLOSE


class DeepSeekV31(DeepSeek):
    """`name<sep>{...}`, as V3.1 and later write it; the form of V3 and R1 is read as well."""

    name = "deepseek_v31"
    layouts: Sequence[dict[str, bool]] = ({}, {"apart": True})

    def __init__(self, *, apart: bool = False) -> None:
        super().__init__(apart=apart)

    def write(self, name: str, arguments: str) -> str:
        """Return one call as text, its arguments in JSON."""
        return f"{OPEN}{name}{SEPARATOR}{arguments}{CLOSE}"


def _read(text: str, begin: int, index: int) -> tuple[list[Call], int]:
    end = text.find(CLOSE, begin)
    if end < 0:
        raise formats.Malformed(
            f"The call is not closed: {CLOSE} is missing after {formats.excerpt(text[begin:].strip())}."
        )
    before, separator, after = text[begin:end].partition(SEPARATOR)
    if not separator:
        raise formats.Malformed(f"{SEPARATOR} is missing in {formats.excerpt(before)}.")
    name, fence, arguments = after.partition(FENCE.strip())
    if not fence or "{" in name:
        name, arguments = before, after
    body = arguments.strip().removesuffix("```")
    return [Call(formats.named(name), formats.strict_object(body), f"call_{index}")], end + len(CLOSE)


def _json(value: Any) -> str:
    """Return JSON in which special tokens and code fences are escaped."""
    return json.dumps(value, ensure_ascii=False).replace("<｜", "\\u003c｜").replace("```", "\\u0060``")
