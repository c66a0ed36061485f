"""Calls as MiniMax M2 writes them: `<invoke name="..."><parameter name="...">value</parameter></invoke>` in a block."""

from __future__ import annotations

import re

from agentgym import Call

from .marked import MarkedArguments

ALL_OPEN, ALL_CLOSE = "<minimax:tool_call>", "</minimax:tool_call>"


class MiniMax(MarkedArguments):
    """One `<invoke>` per call, all calls of a message in one block."""

    name = "minimax"
    opening = '<invoke name="'
    head = re.compile(r'(?P<name>[^"<>\n]{1,300})">')
    key = re.compile(r'\s*<parameter name="(?P<key>[^"<>\n]{1,300})">')
    value_end = re.compile(r"</parameter>(?=\s*(?:<parameter name=|</invoke>))")
    end = re.compile(r"\s*</invoke>")
    strays = (ALL_OPEN, "</invoke>", "</parameter>")
    example = (
        f'{ALL_OPEN}\n<invoke name="tool_name">\n<parameter name="argument">value</parameter>\n</invoke>\n{ALL_CLOSE}'
    )

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text, in one block. Raises: ValueError for an argument that contains its closing mark."""
        return f"{ALL_OPEN}\n{super().render(calls)}\n{ALL_CLOSE}" if calls else ""

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat. Every argument is a string."""
        content, calls = super().parse(text)
        return content.replace(ALL_OPEN, "").replace(ALL_CLOSE, "").strip() if calls else content, calls

    def write(self, name: str, arguments: dict[str, str]) -> str:
        """Return one call as text."""
        lines = [f'<parameter name="{key}">{value}</parameter>\n' for key, value in arguments.items()]
        return f'<invoke name="{name}">\n{"".join(lines)}</invoke>'
