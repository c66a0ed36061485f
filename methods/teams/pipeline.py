"""with_pipeline: roles that act one after the other, each in a context built from earlier roles' messages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from agentgym import AgentGymError, Call, Environment, Message, Result, Task
from agentgym.environment import ContextChange, EnvironmentWrapper

MAX_OUTPUT_CHARS = 4_000
TASK = "task"


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """One role of a pipeline.

    Attributes:
        role: recorded with its turns; unique within the pipeline.
        prompt: its prompt. `{task}` is replaced by the task, `{ROLE}` by the message of the stage with this role.
        tools: the names of those tools of the environment that the role has; the last stage always has those that end
            an episode.
    """

    role: str
    prompt: str
    tools: tuple[str, ...] = ()


def with_pipeline(make: Callable[[], Environment], stages: Sequence[PipelineStage]) -> Callable[[], Pipeline]:
    """Return a factory of environments whose task is done in stages, such as rewriter, selector and generator.

    Args:
        make: makes the environment, for example `functools.partial(agentgym.make, "agentgym/search-v1")`.
        stages: in their order. The last stage's messages and calls go to the environment, as a single agent's would.
    Raises: AgentGymError for an invalid pipeline: no stage, a repeated role, or a prompt that reads its own stage or a
        later one.
    Source: MMOA-RAG, Chen et al. 2025, arXiv:2501.15228: the modules of a retrieval pipeline as agents with one reward.
    """
    stages = tuple(stages)
    if not stages:
        raise AgentGymError("A pipeline needs at least one stage.")
    known = {TASK}
    for stage in stages:
        check_role(stage.role, known)
        read = _read_by(stage)
        if unknown := sorted(read - known):
            raise AgentGymError(
                f"The prompt of {stage.role!r} uses {{{unknown[0]}}}, but before it only {', '.join(sorted(known))} "
                "are known. A stage cannot use the output of a later one."
            )
        known.add(stage.role)
    return lambda: Pipeline(make(), stages)


def check_role(role: str, taken: Collection[str]) -> None:
    """Raise AgentGymError for a role name that is taken or cannot be used in a prompt."""
    if not role or role in taken:
        raise AgentGymError(
            f"The role {role!r} of a pipeline is empty, or is used by another stage. Give each stage its own role."
        )
    if not re.fullmatch(r"[A-Za-z_][\w-]*", role):
        raise AgentGymError(
            f"The role {role!r} cannot be used in a prompt. Write a letter or _ first, then letters, digits, _ and -."
        )


def _read_by(stage: PipelineStage) -> set[str]:
    """Return the roles that a stage's prompt reads. Raises: AgentGymError if the prompt is not a valid template."""
    try:
        fields = [part[1:] for part in Formatter().parse(stage.prompt) if part[1] is not None]
    except ValueError as error:
        raise AgentGymError(
            f"The prompt of {stage.role!r} is not a valid template ({error}). Write {{{{ and }}}} for a literal brace."
        ) from None
    if formatted := next((str(name) for name, spec, conversion in fields if spec or conversion), None):
        raise AgentGymError(
            f"The prompt of {stage.role!r} uses {{{formatted}}} with a format. Write only the name in the braces."
        )
    return {str(name) for name, _, _ in fields}


class Pipeline(EnvironmentWrapper):
    """An environment whose task several roles do in turn, each in its own row. It is as isolated as the wrapped one.

    Every stage but the last ends with its first message without a call, which later stages may read. System messages
    of the environment's opening come first in every stage.

    Args:
        environment, stages: as for `with_pipeline`.
    """

    begins_contexts = True

    def __init__(self, environment: Environment, stages: tuple[PipelineStage, ...]) -> None:
        super().__init__(environment)
        self._stages = stages
        self._number = 0
        self._system: list[Message] = []
        self._outputs: dict[str, str] = {}

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task. Raises: AgentGymError for a stage with a tool that the environment lacks."""
        await self._reset_environment(task, seed)
        self._enter(0)
        return self._opening_of_stage()

    async def _reset_environment(self, task: Task, seed: int) -> list[Message]:
        """Begin the task, store what the stages' prompts need of it, and return the opening.

        Raises: AgentGymError as `reset`.
        """
        self.ended = False
        opening = await self._environment.reset(task, seed=seed)
        self._system = [message for message in opening if message.role == "system"]
        others = [message.text for message in opening if message.role != "system"]
        self._outputs = {TASK: "\n\n".join(others)}
        for stage in self._stages:
            if unknown := sorted(set(stage.tools) - self._environment.tools.keys()):
                raise AgentGymError(
                    f"The stage {stage.role!r} has the tool {unknown[0]!r}, which the environment does not have. It "
                    f"has: {', '.join(self._environment.tools)}."
                )
        return opening

    def _enter(self, number: int) -> None:
        """Give the agent a stage's role and tools."""
        self._number, stage = number, self._stages[number]
        self.role = stage.role
        is_last = number + 1 == len(self._stages)
        tools = self._environment.tools.items()
        self.tools = {name: tool for name, tool in tools if name in stage.tools or (is_last and tool.options.final)}

    def _opening_of_stage(self) -> list[Message]:
        return [*self._system, Message("user", self._stages[self._number].prompt.format(**self._outputs))]

    async def respond(self, message: Message) -> list[Message]:
        """Pass a stage's message to the next stage, and the last stage's message to the environment."""
        if self._number + 1 == len(self._stages):
            return await self._environment.respond(message)
        self._outputs[self.role] = message.text[:MAX_OUTPUT_CHARS]
        self._number += 1
        opening = self._opening_of_stage()
        self.begin_context(opening)
        return opening[len(self._system) :]

    def take_context_change(self) -> ContextChange | None:
        """Return the pending change of context, if any. With it the role and its tools change."""
        if (change := super().take_context_change()) is not None:
            self._enter(self._number)
        return change

    async def call(self, call: Call) -> Result:
        if call.error is not None or call.name not in self.tools:
            return await self.call_own(call)
        return await self._environment.call(call)

    async def state_key(self) -> str | None:
        """Return the environment's key with the messages so far."""
        if (key := await self._environment.state_key()) is None:
            return None
        text = repr((key, self.data()))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def data(self) -> dict[str, Any]:
        return {"stage": self._number, "outputs": self._outputs, "system": [message.text for message in self._system]}

    def restore_data(self, task: Task, data: Mapping[str, Any]) -> None:
        self._outputs = dict(data["outputs"])
        self._system = [Message("system", text) for text in data["system"]]
        self._enter(data["stage"])
