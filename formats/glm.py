"""Calls as GLM 4.5 and later write them: `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value>`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .marked import MarkedArguments


class Glm(MarkedArguments):
    """One call per `<tool_call>`: the name, then alternating keys and values. Newlines between the marks do not matter.

    Args:
        between: the text between two calls.
        lines: write each mark on its own line, as models up to GLM 4.6 do; newer models write no newlines.
    """

    name = "glm"
    opening = "<tool_call>"
    head = re.compile(r"(?P<name>[^<>]{1,300})")
    key = re.compile(r"\s*<arg_key>(?P<key>[^<>\n]{1,300})</arg_key>\s*<arg_value>")
    value_end = re.compile(r"</arg_value>(?=\s*(?:<arg_key>|</tool_call>))")
    end = re.compile(r"\s*</tool_call>")
    strays = ("</tool_call>", "<arg_key>", "</arg_value>")
    example = "<tool_call>tool_name\n<arg_key>argument</arg_key>\n<arg_value>value</arg_value>\n</tool_call>"

    layouts: Sequence[dict[str, Any]] = ({}, {"between": ""}, {"between": "", "lines": False})

    def __init__(self, *, between: str = "\n", lines: bool = True) -> None:
        super().__init__(between=between)
        self._line = "\n" * lines

    def write(self, name: str, arguments: dict[str, str]) -> str:
        """Return one call as text."""
        line = self._line
        pairs = (
            f"<arg_key>{key}</arg_key>{line}<arg_value>{value}</arg_value>{line}" for key, value in arguments.items()
        )
        return f"<tool_call>{name}{line}{''.join(pairs)}</tool_call>"
