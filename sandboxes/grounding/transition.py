"""`agentgym/transition-v1`: a screen before and after one action; the agent says which action it was."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from agentgym import Checkpoint, Environment, Message, Part, Task, TaskError, TextPart, tool

from .environment import LONGEST, Pixel, max_side_of
from .views import enlarged, missing_packages, screen_of, whole_screen

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_SCREENS = 4


class Transition(Environment):
    """Still screens in order. No code runs, so nothing is isolated: it only draws the task's screens.

    Task parameters: `screens`, two to four of them, each as in `agentgym/ground-v1`; `shown` likewise. The question is
    which action was first, after screen 0. The true action is in the task's truth, which an environment never gets.
    Source: inverse dynamics, UIShift, Gao et al. 2025, arXiv:2505.12493.
    """

    reward = "gui_action"
    task_set = "gui/transitions-v1"

    def __init__(self) -> None:
        self._screens: list[Image] = []
        self._max_side, self._digest = LONGEST, ""
        self._seen: list[list[int]] = []

    @classmethod
    def unavailable_reason(cls) -> str:
        return missing_packages()

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Show the screens. Raises: TaskError if they cannot be drawn."""
        self._read(task)
        parts: list[Part] = []
        for index, screen in enumerate(self._screens):
            parts += [
                TextPart(f"Screen {index}, {screen.width} x {screen.height} pixels: "),
                whole_screen(screen, self._max_side),
            ]
        opening = task.opening()
        return [Message("user", (*parts, TextPart(opening[0].text))), *opening[1:]]

    @tool
    def zoom(
        self, screen: Annotated[int, Field(ge=0, lt=MAX_SCREENS)], left: Pixel, top: Pixel, right: Pixel, bottom: Pixel
    ) -> list[Part]:
        """Look at a part of a screen more closely."""
        chosen = self._screens[min(screen, len(self._screens) - 1)]
        parts = enlarged(chosen, (left, top, right, bottom), self._max_side)
        self._seen.append([screen, left, top, right, bottom])
        return list(parts)

    @tool(final=True, inline=True)
    def act(
        self,
        action: Literal["click", "type", "press", "scroll", "back"],
        x: Pixel = 0,
        y: Pixel = 0,
        text: Annotated[str, Field(max_length=200)] = "",
    ) -> str:
        """Answer with the action.

        Args:
            x: for click, where on screen 0.
            y: likewise.
            text: what was typed, the key that was pressed, or how many rows were scrolled and whereto, as in 4 up.
        """
        return f"Answered {action}."

    async def state_key(self) -> str | None:
        """Hash of the screens, and of the enlarged parts in any order."""
        return hashlib.sha256(f"{self._digest}{sorted(self._seen)}".encode()).hexdigest()[:32]

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({"seen": [list(part) for part in self._seen]})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self._read(task)
        self._seen = [list(part) for part in checkpoint.data["seen"]]

    def _read(self, task: Task) -> None:
        screens = task.parameters.get("screens")
        if not isinstance(screens, (list, tuple)) or not 2 <= len(screens) <= MAX_SCREENS:
            raise TaskError(f"{task.id}: parameters['screens'] must be a list of 2 to {MAX_SCREENS} screens.")
        where = f"{task.id}: parameters['screens']"
        self._screens = [screen_of(screen, f"{where}[{index}]") for index, screen in enumerate(screens)]
        self._max_side = max_side_of(task)
        self._digest = hashlib.sha256(b"".join(screen.tobytes() for screen in self._screens)).hexdigest()
        self._seen = []
