"""Tools described by JSON Schemas, as a server or a file gives them, in an environment made at registration.

python examples/tools_from_schema.py
"""

from __future__ import annotations

import asyncio
from functools import partial

from agentgym import Call, Environment, EpisodeManager, Message, ScriptedPolicy, Task, Tool, register

CATALOGUE = [
    {
        "name": "convert",
        "description": "Convert a length from metres.",
        "parameters": {
            "type": "object",
            "properties": {
                "metres": {"type": "number", "minimum": 0},
                "unit": {"enum": ["foot", "mile"], "description": "What to convert to."},
            },
            "required": ["metres", "unit"],
            "additionalProperties": False,
        },
    }
]


def call_server(name: str, arguments: dict) -> str:
    """Stands for a request to the server that offers the tools."""
    metres_per_unit = {"foot": 0.3048, "mile": 1609.344}[arguments["unit"]]
    return f"{name}: {arguments['metres'] / metres_per_unit:.2f} {arguments['unit']}"


class RemoteTools(Environment):
    """Tools of another server. They run there; nothing here needs isolation."""

    def __init__(self, catalogue=CATALOGUE):
        for entry in catalogue:
            self.add_tools(Tool.from_schema(**entry, call=partial(call_server, entry["name"])))


async def main() -> None:
    register("acme/remote-v1", RemoteTools)
    agent = ScriptedPolicy(
        [
            Message("assistant", "", (Call("convert", {"metres": 42195, "unit": "miles"}),)),
            Message("assistant", "", (Call("convert", {"metres": 42195, "unit": "mile"}),)),
            Message("assistant", "A marathon has 26.22 miles."),
        ]
    )
    [episode] = await EpisodeManager(agent).collect([Task("marathon", "acme/remote-v1", "How long is a marathon?")])
    for turn in episode.turns:
        print(*(result.content for result in turn.results) if turn.results else [turn.message.text])


if __name__ == "__main__":
    asyncio.run(main())
