"""ReAct's calls, for models without a call format: `Action: query` and `Action Input: {...}` on separate lines.

Source: Yao et al. 2023, arXiv:2210.03629. Arguments are one JSON object, as in agent libraries, not as in the paper.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agentgym import Call
from agentgym.policy import formats

EXAMPLE = 'Action: tool_name\nAction Input: {"argument": "value"}'
OBSERVATION = "\nObservation:"
_ACTION = re.compile(r"^[ \t]*Action:[ \t]*(?P<name>.*)$", re.MULTILINE)
_INPUT = re.compile(r"\s*Action Input:[ \t]*\n?[ \t]*")


class React:
    """Thoughts as plain text, then an action and its input. What the agent writes after `Observation:` is ignored."""

    name = "react"
    stop: tuple[str, ...] = (OBSERVATION,)

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return one line of JSON Schema per tool, and the form of a call."""
        lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
        return (
            f"You may use these tools:\n{lines}\nThink first, then write this and wait for the observation:\n{EXAMPLE}"
        )

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text, one after another."""
        return "\n".join(
            f"Action: {call.name}\nAction Input: {json.dumps(call.arguments, ensure_ascii=False)}" for call in calls
        )

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat."""
        text = text.partition(OBSERVATION)[0]
        reader = formats.CallWalk(text, _ACTION, EXAMPLE)
        while action := reader.next_call():
            call, reader.at = _read(text, action, len(reader.calls))
            reader.calls.append(call)
        if not reader.calls and "Action Input:" in reader.speech:
            reader.refuse("Action Input: stands without a line Action: before it.")
        return reader.message()


def _read(text: str, action: re.Match[str], index: int) -> tuple[Call, int]:
    at, name = action.end(), ""
    try:
        name = formats.named(action["name"], "Action")
        given = _INPUT.match(text, at)
        if given is None:
            raise formats.Malformed(
                f"The line Action: {name} must be followed by Action Input, not by {formats.excerpt(text[at:])}."
            )
        at = given.end()
        arguments, at = formats.strict_json_at(text, at)
        if not isinstance(arguments, dict):
            raise formats.Malformed(f"Action Input of {name} must be a JSON object, not {formats.kind_of(arguments)}.")
    except formats.Malformed as malformed:
        return formats.malformed_call(index, str(malformed), EXAMPLE, name[:128]), at
    return Call(name, arguments, f"call_{index}"), at
