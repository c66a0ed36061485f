"""`agentgym/ground-v1`: point at the thing on a screen that the task names; the agent may zoom in."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from agentgym import Checkpoint, Environment, Message, Part, Task, TaskError, TextPart, tool

from .views import enlarged, missing_packages, screen_of, whole_screen

if TYPE_CHECKING:
    from PIL.Image import Image

LONGEST = 640
Pixel = Annotated[int, Field(ge=-(2**20), le=2**20)]


class Ground(Environment):
    """A still screen at which the agent points. No code runs, so nothing is isolated: it only draws the task's screen.

    Task parameters: `screen`, drawn from `widgets` (see drawing.py), read from `path` and `sha256`, or an `asset` and
    the `name` of one of its pictures; `shown`, pixels of the longer side of the agent's image, 640 by default.
    Coordinates are pixels of the screen itself, whatever the size of the image. The true box is in the task's truth,
    which the environment never reads.
    Source of the zoom: Mini-o3, Lai et al. 2025, arXiv:2509.07969; ViGoRL, Sarch et al. 2025, arXiv:2505.23678.
    """

    reward = "grounding"
    task_set = "gui/screens-v1"

    def __init__(self) -> None:
        self._screen: Image | None = None
        self._max_side, self._digest = LONGEST, ""
        self._seen: list[tuple[int, int, int, int]] = []

    @classmethod
    def unavailable_reason(cls) -> str:
        return missing_packages()

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Show the screen. Raises: TaskError if it cannot be drawn."""
        self._read(task)
        assert self._screen is not None
        text = f"The screen is {self._screen.width} x {self._screen.height} pixels; (0, 0) is its upper left corner. "
        opening = task.opening()
        picture = whole_screen(self._screen, self._max_side)
        return [Message("user", (TextPart(text), picture, TextPart(opening[0].text))), *opening[1:]]

    @tool
    def zoom(self, left: Pixel, top: Pixel, right: Pixel, bottom: Pixel) -> list[Part]:
        """Look at a part of the screen more closely."""
        assert self._screen is not None
        parts = enlarged(self._screen, (left, top, right, bottom), self._max_side)
        self._seen.append((left, top, right, bottom))
        return list(parts)

    @tool(final=True, inline=True)
    def point(self, x: Pixel, y: Pixel) -> str:
        """Answer with a point of the screen."""
        return f"Pointed at ({x}, {y})."

    @tool(final=True, inline=True)
    def box(self, left: Pixel, top: Pixel, right: Pixel, bottom: Pixel) -> str:
        """Answer with the box around it."""
        return f"Boxed ({left}, {top}) to ({right}, {bottom})."

    async def state_key(self) -> str | None:
        """Hash of the screen, and of the enlarged parts in any order."""
        return hashlib.sha256(f"{self._digest}{sorted(set(self._seen))}".encode()).hexdigest()[:32]

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({"seen": [list(part) for part in self._seen]})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self._read(task)
        self._seen = [(a, b, c, d) for a, b, c, d in checkpoint.data["seen"]]

    def _read(self, task: Task) -> None:
        self._screen = screen_of(task.parameters.get("screen"), f"{task.id}: parameters['screen']")
        self._max_side = max_side_of(task)
        self._digest = hashlib.sha256(self._screen.tobytes()).hexdigest()
        self._seen = []


def max_side_of(task: Task) -> int:
    """Return the longer side of the image that the agent gets, in pixels. Raises: TaskError."""
    pixels = task.parameters.get("shown", LONGEST)
    if not isinstance(pixels, int) or not 32 <= pixels <= 2048:
        raise TaskError(f"{task.id}: parameters['shown'] must be 32 to 2048 pixels, not {pixels!r}.")
    return pixels
