"""Calls as GLM 4.5 and later write them: `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value>`."""

from __future__ import annotations

import re

from agentgym.policy.formats.marked import MarkedArguments


class Glm(MarkedArguments):
    """One call a `<tool_call>`: the name, then keys and values in turn. Newlines between the marks do not matter."""

    name = "glm"
    opening = "<tool_call>"
    head = re.compile(r"(?P<name>[^<>]{1,300})")
    key = re.compile(r"\s*<arg_key>(?P<key>[^<>\n]{1,300})</arg_key>\s*<arg_value>")
    value_end = re.compile(r"</arg_value>(?=\s*(?:<arg_key>|</tool_call>))")
    end = re.compile(r"\s*</tool_call>")
    strays = ("</tool_call>", "<arg_key>", "</arg_value>")
    example = "<tool_call>tool_name\n<arg_key>argument</arg_key>\n<arg_value>value</arg_value>\n</tool_call>"

    def write(self, name: str, arguments: dict[str, str]) -> str:
        """One call as text."""
        lines = [f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in arguments.items()]
        return f"<tool_call>{name}\n{''.join(lines)}</tool_call>"
