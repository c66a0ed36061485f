"""Calls as Qwen3-Coder, Qwen3.5 and Nemotron 3 write them: `<function=name><parameter=key>value</parameter>`."""

from __future__ import annotations

import re

from .marked import MarkedArguments


class QwenXml(MarkedArguments):
    """One function per `<tool_call>`, every argument on separate lines; one newline around a value is dropped."""

    name = "qwen_xml"
    opening = "<tool_call>"
    head = re.compile(r"\s*<function=(?P<name>[^<>\n]{1,300})>")
    key = re.compile(r"\s*<parameter=(?P<key>[^<>\n]{1,300})>\n?")
    value_end = re.compile(r"\n?</parameter>(?=\s*(?:<parameter=|</function>))")
    end = re.compile(r"\s*</function>\s*</tool_call>")
    strays = ("</tool_call>", "<function=", "</function>", "</parameter>")
    example = "<tool_call>\n<function=tool_name>\n<parameter=argument>\nvalue\n</parameter>\n</function>\n</tool_call>"

    def write(self, name: str, arguments: dict[str, str]) -> str:
        """Return one call as text."""
        lines = [f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items()]
        return f"<tool_call>\n<function={name}>\n{''.join(lines)}</function>\n</tool_call>"
