"""One step of an expert: the agent sees the conversation up to a turn and writes the next message; nothing is run."""

from __future__ import annotations

from typing import Any

from agentgym import Call, Environment, Message, Result, Task, Tool, tool

_RECORDED = "This call is compared with the expert's. It is not run."


class StepEnvironment(Environment):
    """The agent sees the history of another episode, and writes one message. In memory, not isolated.

    `task.messages` is the history. `task.parameters["tools"]` are the schemas of the tools in that episode; a call is
    recorded, not run, and ends the episode. Without schemas, the only tool is `answer`.
    """

    reward = "action_similarity"

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.ended = False
        if schemas := task.parameters.get("tools"):
            self.tools = {}
            self.add_tools(*(_recorded_tool(schema["function"]) for schema in schemas))
        return task.opening()

    @tool(final=True, inline=True)
    def answer(self, text: str) -> str:
        """Answer."""
        return _RECORDED

    async def call(self, call: Call) -> Result:
        result = await super().call(call)
        self.end_episode()
        return result


def _recorded_tool(function: dict[str, Any]) -> Tool:
    """Return a tool that is declared to the agent, but whose calls are only recorded."""
    return Tool.from_schema(
        function["name"], function.get("description", ""), function["parameters"], lambda _: _RECORDED
    )
