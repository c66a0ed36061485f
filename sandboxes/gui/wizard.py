"""`agentgym/web-wizard-v1`: a form of many steps in Chromium, one field on each page, filled in by one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym import Message, Task, ToolError, Trajectory, tool
from agentgym.reward import SUCCESS, Components

from .environment import TOOL_S, WebPages
from .judge import WebReward, parse_effects, same_value


class WebWizard(WebPages):
    """A form of many steps in Chromium, with one tool. Not isolated: episodes of one browser share its processes.

    The agent sees the page's text as one line, such as `City Oslo: Lima Oslo Rome`. A call fills in the page's field (a
    text field, a list or a group of buttons) by keys and clicks, and sends the form. Whichever of the values it enters,
    the next page follows. After the last page the episode ends. Task parameters: those of `WebParameters` with the site
    `wizard`.
    """

    reward = "web_steps"
    task_set = "web/long-form-v1"
    _page = ""

    def __init__(self) -> None:
        super().__init__(observe=("text",))

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Open the first page. Raises: TaskError if there is no such site."""
        _, *opening = await super().reset(task, seed=seed)
        return opening

    @tool(timeout_s=TOOL_S, parallel=False, max_output_chars=20_000)
    async def enter(self, value: str) -> str:
        """Fill in the field and go on to the next page."""
        steps, page = self._steps, self._page
        try:
            observation = await self._act("fill", " ".join(value.split()))
        except ToolError as error:
            if self._over:
                raise
            raise ToolError(f"No such value.\n{page}") from error
        if self._steps == steps:
            raise ToolError(f"No such value.\n{page}")
        return str(observation)

    async def potential(self) -> float | None:
        """Return the share of all steps that were taken correctly so far."""
        _, right, count = self._steps
        return right / count

    def _render(self, observed: dict[str, Any]) -> str:
        self._page = " ".join(observed["text"].split())
        return self._page


class WebStepsReward(WebReward):
    """Outcome components `success`, 1 only if every step was right, and `progress`, the share of right steps.

    An episode is judged by the pages' state at its end; if it was truncated, by the values that the agent entered.
    `truth`: `effects`, the right value of every step by its number from 1 on, as data or as JSON.
    """

    weights: Mapping[str, float] = {"progress": 0.0}

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the truth has nothing to judge by."""
        components = super().outcome(episode)
        progress = components.get("effects_right", 0.0)
        if self._end_state(episode)[0] is None:
            expected = list(parse_effects(episode.task.truth.get("effects", {}), episode.task.id).values())
            calls = [pair for turn in episode.turns for pair in zip(turn.calls, turn.results, strict=False)]
            values = [call.arguments.get("value") for call, result in calls if call.name == "enter" and result.ok]
            progress = sum(map(same_value, expected, values)) / max(len(expected), 1)
        return {SUCCESS: components[SUCCESS], "progress": progress}
