"""EnvironmentWrapper: an environment around another one, which it asks for everything that it does not do itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from agentgym.environment.contract import Checkpoint, ContextChange, Environment
from agentgym.errors import AgentGymError
from agentgym.messages import Call, Result, ResultStatus
from agentgym.sandbox import Usage
from agentgym.task import Task


class EnvironmentWrapper(Environment):
    """Passes on to another environment what is no concern of its own. What is isolated is up to that environment.

    A subclass overrides `reset`, `call` and `respond`, and `data` and `restore_data` if it has a state of its own.

    Contexts that the environment begins are passed on, too; a wrapper with contexts of its own refuses them.

    Args:
        environment: of one episode.
    """

    begins_contexts: ClassVar[bool] = False

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.tools = environment.tools
        self.reward = environment.reward

    @property
    def image_digests(self) -> list[str]:
        return self._environment.image_digests

    @property
    def ended(self) -> bool:
        return self._ended or self._environment.ended

    @property
    def changes_context(self) -> bool:
        return super().changes_context or self._environment.changes_context

    def take_context_change(self) -> ContextChange | None:
        """As Environment. Raises: AgentGymError where both the wrapper and the environment begin contexts."""
        if (change := self._environment.take_context_change()) is None:
            return super().take_context_change()
        if self.begins_contexts:
            raise AgentGymError(
                f"{type(self._environment.unwrapped).__qualname__} begins contexts of its own, and so does "
                f"{type(self).__name__}, which cannot be around it: wrap an environment with one context."
            )
        return change

    def private_texts(self) -> Sequence[str]:
        return self._environment.private_texts()

    async def state_key(self) -> str | None:
        return await self._environment.state_key()

    async def potential(self) -> float | None:
        return await self._environment.potential()

    async def hopeless(self) -> str | None:
        return await self._environment.hopeless()

    async def turns_needed(self) -> int | None:
        return await self._environment.turns_needed()

    async def call_own(self, call: Call) -> Result:
        """Run a call of a tool that the wrapper itself has. Judges that repeat calls leave it out."""
        result = await super().call(call)
        return replace(result, status=ResultStatus.BY_PROGRAM) if result.status is ResultStatus.OK else result

    def data(self) -> dict[str, Any]:
        """The wrapper's own state, as JSON data."""
        return {}

    def restore_data(self, task: Task, data: Mapping[str, Any]) -> None:
        """Take over what `data` gave, once the environment is restored."""

    async def checkpoint(self) -> Checkpoint | None:
        checkpoint = await self._environment.checkpoint()
        if checkpoint is None:
            return None
        return Checkpoint({"environment": dict(checkpoint.data), "wrapper": self.data()}, checkpoint.snapshot)

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        data: Mapping[str, Mapping[str, Any]] = checkpoint.data
        await self._environment.restore(task, Checkpoint(data["environment"], checkpoint.snapshot), seed=seed)
        self.tools = self._environment.tools
        self.restore_data(task, data["wrapper"])

    async def usage(self) -> Usage:
        return await self._environment.usage()

    async def close(self) -> None:
        try:
            await self._environment.close()
        finally:
            await super().close()
