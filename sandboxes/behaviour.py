"""`agentgym/behaviour-v1`: the log of a person's past actions; the agent predicts what they do next, page by page."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from agentgym import Checkpoint, Environment, Message, Outlook, Task, TaskError, ToolError, tool

TYPES = ("click", "type_and_submit", "terminate")
MAX_RATIONALE_CHARS = 600
Text = Annotated[str, Field(max_length=200)]


class Behaviour(Environment):
    """A recorded session, one decision after another, after a log of earlier sessions. In memory, not isolated.

    Each prediction is answered with the action that the person took and the page that it led to, so a wrong prediction
    does not change what follows.

    Task parameters: `past`, the log as text; `present`, a heading of the present session; `steps`, for each decision a
    mapping of `page` and `action`, both texts. An action is `terminate`, or `type target: value`, such as `click
    filter: under 40`. The task's truth has the actions too, and the reward reads them there.
    Source: Shop-R1, Zhang et al. 2025, arXiv:2507.17842: the actions, and a rationale before each.
    """

    reward = "behaviour_action"
    task_set = "behaviour/shopping-v1"
    _steps: Sequence[tuple[str, str]]
    _step: int
    _digest: str

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Show the log and the first page. Raises: TaskError."""
        self.ended = False
        past, present = self._read(task)
        opening = task.opening()
        page = self._steps[0][0]
        log = "\n\n".join(part for part in (opening[-1].text, past, f"{present}\n{page}") if part)
        return [*opening[:-1], Message("user", log)]

    def _read(self, task: Task) -> tuple[str, str]:
        """Read the parameters. Returns: the log, and the heading of the current session. Raises: TaskError."""
        past, present = (task.parameters.get(name, "") for name in ("past", "present"))
        steps = task.parameters.get("steps")
        if not isinstance(past, str) or not isinstance(present, str):
            raise TaskError(f"{task.id}: behaviour-v1 needs the texts parameters['past'] and parameters['present'].")
        if not isinstance(steps, list | tuple) or not steps:
            raise TaskError(
                f"{task.id}: parameters['steps'] must be a list with a mapping of 'page' and 'action' for each "
                "decision."
            )
        self._steps = [_step_of(step, f"{task.id}: parameters['steps'][{n}]") for n, step in enumerate(steps)]
        self._step = 0
        self._digest = hashlib.sha256(repr((past, present, self._steps)).encode("utf-8", "surrogatepass")).hexdigest()
        return past, present

    @tool(inline=True)
    def act(
        self,
        rationale: Annotated[str, Field(max_length=MAX_RATIONALE_CHARS)],
        type: Literal["click", "type_and_submit", "terminate"],  # noqa: A002 - what the paper's actions call it
        target: Text = "",
        value: Text = "",
    ) -> str:
        """Predict what the person does next on this page.

        Args:
            rationale: why they do it, in a sentence.
            type: terminate leaves, and has neither target nor value.
            target: the element, such as search box, filter or product.
            value: which of them, or the text that is typed.
        """
        if self._step == len(self._steps):  # an earlier call of the same message ended the session
            raise ToolError("The session is over.")
        _, done = self._steps[self._step]
        self._step += 1
        if self._step == len(self._steps):
            self.end_episode()
            return f"They did: {done}\nThe session is over."
        return f"They did: {done}\n\n{self._steps[self._step][0]}"

    async def respond(self, message: Message) -> list[Message]:
        """Answer a message without a call, which predicts nothing."""
        return [Message("user", "Call act.")]

    async def outlook(self) -> Outlook:
        return Outlook(turns_needed=len(self._steps) - self._step)

    async def state_key(self) -> str | None:
        return f"{self._digest[:32]}/{self._step}"

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({"step": self._step})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self._read(task)
        self._step = checkpoint.data["step"]


def _step_of(step: Any, where: str) -> tuple[str, str]:
    """Return the page of a step, and its action in words. Raises: TaskError naming the fault."""
    page, action = (step.get("page"), step.get("action")) if isinstance(step, Mapping) else (None, None)
    if not isinstance(page, str) or not isinstance(action, str):
        raise TaskError(f"{where} must be a mapping of 'page' and 'action', which are texts.")
    if (kind := action.partition(" ")[0]) not in TYPES:
        raise TaskError(f"{where}['action'] has the unknown type {kind!r}. Types are: {', '.join(TYPES)}.")
    return page, action
