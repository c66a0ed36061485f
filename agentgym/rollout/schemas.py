"""What the episodes of one environment class share about its tools, made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.tools import Tool


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """Schemas in the OpenAI function-call shape, and the costs of those tools that cost something."""

    schemas: Sequence[dict[str, Any]]
    costs: Mapping[str, float]


# By the identity of the collection, which belongs to a class; it is kept here, so that its id is never given again.
_known: dict[int, tuple[Mapping[str, Tool], ToolFacts]] = {}


def tool_facts(tools: Mapping[str, Tool]) -> ToolFacts:
    """The facts of a tool collection, made at its first use."""
    found = _known.get(id(tools))
    if found is None:
        facts = ToolFacts(
            tuple(tool.schema() for tool in tools.values()),
            {name: tool.options.cost for name, tool in tools.items() if tool.options.cost},
        )
        found = _known[id(tools)] = (tools, facts)
    return found[1]
