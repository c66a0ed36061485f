"""`agentgym/experts-v1`: a short question, to be answered directly or after asking a model, which has a price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any, ClassVar

from agentgym import Checkpoint, Environment, Message, Task, TaskError, tool
from agentgym.methods.teams import ModelPool, Routing

from .knowledge import EASY, FIELDS, Field
from .models import EXPERTS, Expert, expert_pool

REWARD = "routed_answer"


class OneQuestion(Environment):
    """One question to answer. It runs in memory, and nothing in it needs isolation."""

    reward = REWARD

    @tool(final=True, inline=True)
    def answer(self, text: str) -> str:
        """Answer the question by a word or a number."""
        return "Answered."

    async def checkpoint(self) -> Checkpoint:
        return Checkpoint()

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self.reset(task, seed=seed)


class AskExperts(Routing, tools=[*OneQuestion.tools.values()]):  # type: ignore[call-arg]  # mypy does not find Routing
    """A question, and models that may be asked at a price: `route(model)`, then `answer(text)`. Nothing is isolated.

    The models are scripts, in memory: each is right in its own fields and wrong in the
    others, and what it says does not show which. In each task they are called A, B, C, so that an agent cannot learn
    their names. The text below the question also lists the models with their prices and strengths, for chat templates
    that leave out the descriptions of tools.

    Task parameters: `models`, the names of the models that may be asked, A first. Training tasks never name unseen
    models.

    Args:
        pool: the models by their names; by default the scripts.
    """

    reward = REWARD
    task_set = "routing/experts-v1"
    experts: ClassVar[Mapping[str, Expert]] = EXPERTS
    fields: ClassVar[Mapping[str, Field]] = FIELDS
    easy_field: ClassVar[str] = EASY

    def __init__(self, pool: ModelPool | None = None) -> None:
        self._models = pool or expert_pool()
        super().__init__(OneQuestion(), self._models)

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task.

        Raises: TaskError for models that the pool lacks, or that a task of this split may not offer.
        """
        opening = await super().reset(task, seed=seed)
        models = "\n".join(map(self.described, self.offered(task)))
        return [*opening[:-1], Message("user", f"{opening[-1].text}\n{models}")]

    def _offer(self, task: Task) -> None:
        named = dict(zip(ascii_uppercase, self._named_by(task), strict=False))
        policies = {letter: self._models.policies[name] for letter, name in named.items()}
        self._pool = ModelPool(policies, {letter: self._models.prices[name] for letter, name in named.items()})
        super()._offer(task)

    def _named_by(self, task: Task) -> Sequence[str]:
        """Return the names of the models that a task offers. Raises: TaskError."""
        names: Any = task.parameters.get("models")
        is_list = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
        if not is_list or not 1 <= len(names) <= len(ascii_uppercase):
            raise TaskError(f"{task.id}: parameters['models'] of experts-v1 must name 1 to 26 models.")
        may_be_asked = self._models.offered(task.split)
        if unknown := [name for name in names if name not in may_be_asked]:
            raise TaskError(
                f"{task.id}: the model {unknown[0]!r} is unknown, or it is unseen and may not be used in a task of "
                f"{task.split}. Models are: {', '.join(may_be_asked)}."
            )
        return [*names]
