"""EnvironmentWrapper: an environment around another one, to which it delegates everything that it does not override."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from agentgym.environment.contexts import ContextChange, HasContexts, changes_context, take_context_change
from agentgym.environment.contract import Environment
from agentgym.environment.state import Checkpoint, Outlook
from agentgym.environment.workspace import Workspace
from agentgym.errors import AgentGymError
from agentgym.messages import Call, Result, ResultStatus
from agentgym.sandbox import Backend
from agentgym.task.definition import Task


class EnvironmentWrapper(HasContexts, Environment):
    """An environment that delegates to another one, which alone decides what is isolated.

    A subclass overrides `reset`, `call` and `respond`; a stateful one also overrides `data` and `restore_data`.

    Contexts that the wrapped environment begins are passed on; a wrapper that itself begins contexts cannot wrap it.

    Args:
        environment: the environment to wrap, for one episode.
    Attributes:
        begins_contexts: whether the wrapper itself begins contexts.
        is_transparent: whether the episode takes its class, tools and role from the wrapped environment.
    """

    begins_contexts: ClassVar[bool] = False
    is_transparent: ClassVar[bool] = False
    _has_ended = False

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.tools, self.reward = environment.tools, environment.reward
        self.sandboxes = environment.sandboxes

    @property
    def backend(self) -> Backend | None:
        return self._environment.backend

    @backend.setter
    def backend(self, backend: Backend | None) -> None:
        self._environment.backend = backend

    @property
    def ended(self) -> bool:
        return self._has_ended or self._environment.ended

    @ended.setter
    def ended(self, ended: bool) -> None:
        self._has_ended = ended

    @property
    def private_texts(self) -> Sequence[str]:  # type: ignore[override]
        return self._environment.private_texts

    @property
    def changes_context(self) -> bool:
        return super().changes_context or changes_context(self._environment)

    def take_context_change(self) -> ContextChange | None:
        """Return the context change of the wrapper or the environment. Raises: AgentGymError if both begin contexts."""
        if (change := take_context_change(self._environment)) is None:
            return super().take_context_change()
        if self.begins_contexts:
            raise AgentGymError(
                f"{type(self).__name__} cannot wrap {type(self.unwrap(self._environment)).__qualname__}, because both "
                "begin contexts of their own. Wrap an environment that has one context."
            )
        return change

    async def state_key(self) -> str | None:
        return await self._environment.state_key()

    async def potential(self) -> float | None:
        return await self._environment.potential()

    async def workspace(self) -> Workspace | None:
        return await self._environment.workspace()

    async def outlook(self) -> Outlook | None:
        return await self._environment.outlook()

    async def call_own(self, call: Call) -> Result:
        """Run a call of one of the wrapper's own tools. Judges that repeat calls skip such calls."""
        result = await super().call(call)
        return replace(result, status=ResultStatus.BY_PROGRAM) if result.status is ResultStatus.OK else result

    def data(self) -> dict[str, Any]:
        """Return the wrapper's own state, as JSON data."""
        return {}

    def restore_data(self, task: Task, data: Mapping[str, Any]) -> None:
        """Restore the wrapper's state from the result of `data`, after the environment is restored."""

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

    async def close(self) -> None:
        try:
            await self._environment.close()
        finally:
            await super().close()

    @staticmethod
    def unwrap(environment: Environment) -> Environment:
        """Return the environment inside transparent wrappers: its class, tools and role are the episode's."""
        while isinstance(environment, EnvironmentWrapper) and environment.is_transparent:
            environment = environment._environment
        return environment


def may_begin_contexts(environment: Environment) -> bool:
    """Return whether an episode in an environment may have several contexts, and its trajectory several rows."""
    while isinstance(environment, EnvironmentWrapper):
        if environment.begins_contexts:
            return True
        environment = environment._environment
    return isinstance(environment, HasContexts)
