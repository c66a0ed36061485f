"""`agentgym/function-calls-v1`: a request, functions that are declared to the agent, and one message by the agent."""

from __future__ import annotations

from agentgym import Message, Task

from .step import StepEnvironment


class FunctionCalls(StepEnvironment):
    """Functions that are only declared: the agent's calls are compared, not run. In memory, so nothing is isolated.

    The episode ends with the agent's first message, whether it calls functions or not.

    Task parameters: `tools`, schemas of the functions, each as `{"type": "function", "function": {...}}`; with an empty
    list there is nothing to call.
    """

    reward = "bfcl"

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        opening = await super().reset(task, seed=seed)
        if task.parameters.get("tools") == []:
            self.tools = {}
        return opening
