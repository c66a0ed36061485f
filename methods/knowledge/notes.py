"""with_notes: lets the agent leave notes for later episodes in any environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from agentgym import Call, Environment, Message, Result, Task, ToolDefinitionError, ToolError, tool
from agentgym.environment import EnvironmentWrapper

from .lessons import MAX_NOTE_CHARS, NOTE

MAX_NOTES = 4
"""The largest number of notes that an episode may take."""


def with_notes(make: Callable[[], Environment]) -> Callable[[], NoteTaking]:
    """Return a factory of environments with a tool `note`, for `RolloutConfig(environment=...)` or `agentgym.register`.

    A `KnowledgeStore` keeps the notes, and shows them in later episodes with the same goal.

    Args:
        make: makes the environment, for example `functools.partial(agentgym.make, "agentgym/text-craft-v1")`.
    """
    return lambda: NoteTaking(make())


class NoteTaking(EnvironmentWrapper):
    """An environment with a tool `note`. It is as isolated as the wrapped one.

    Notes are stored only in the episode's record, where a KnowledgeStore reads them.
    """

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._count = 0

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin an episode. Raises: ToolDefinitionError if the environment already has a tool `note`."""
        self.ended, self._count = False, 0
        opening = await self._environment.reset(task, seed=seed)
        self._take_tools()
        return opening

    @tool(inline=True)
    def note(self, text: Annotated[str, Field(min_length=1, max_length=MAX_NOTE_CHARS)]) -> str:
        """Leave a note for later episodes with the same goal."""
        if self._count == MAX_NOTES:
            raise ToolError(f"You have already taken {MAX_NOTES} notes, and an episode may have no more.")
        self._count += 1
        return "Noted."

    async def call(self, call: Call) -> Result:
        if call.error is None and call.name == NOTE:
            return await self.call_own(call)
        result = await self._environment.call(call)
        self._take_tools()
        return result

    async def respond(self, message: Message) -> list[Message]:
        return await self._environment.respond(message)

    def data(self) -> dict[str, Any]:
        return {"notes": self._count}

    def restore_data(self, task: Task, data: Mapping[str, Any]) -> None:
        self._count = data["notes"]
        self._take_tools()

    def _take_tools(self) -> None:
        """Copy the environment's current tools, which it may change at any time."""
        if NOTE in self._environment.tools:
            raise ToolDefinitionError(f"The environment already has a tool {NOTE!r}. Give that tool another name.")
        if self.tools.keys() != {NOTE, *self._environment.tools}:
            self.tools = {**self._environment.tools, NOTE: type(self).tools[NOTE]}
        self.role = self._environment.role
