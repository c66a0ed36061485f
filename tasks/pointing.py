"""Messages of the scripted players that point at a screen, and the geometry of boxes that they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym import Call, Message

MARGIN = 40
"""Pixels that a player's zoom adds on each side of the element."""


def looks_and_points(box: Sequence[int], size: Sequence[int], *, boxed: bool = False) -> list[Message]:
    """Return messages that zoom in on a box, then point at its middle or, if `boxed`, answer with the box.

    Args:
        box: left, top, right and bottom in pixels.
        size: width and height of the screen in pixels.
    """
    sides = ("left", "top", "right", "bottom")
    zoomed = (
        max(0, box[0] - MARGIN),
        max(0, box[1] - MARGIN),
        min(size[0], box[2] + MARGIN),
        min(size[1], box[3] + MARGIN),
    )
    answer = calling("box", dict(zip(sides, box, strict=True))) if boxed else points(box)
    return [calling("zoom", dict(zip(sides, zoomed, strict=True))), answer]


def points(box: Sequence[int]) -> Message:
    """Return the message that points at the middle of a box."""
    x, y = middle(box)
    return calling("point", {"x": x, "y": y})


def elsewhere(boxes: Sequence[Sequence[int]], truth: Sequence[int]) -> list[Sequence[int]]:
    """Return the boxes whose centre lies outside the true box."""
    return [box for box in boxes if not covers(truth, middle(box))]


def middle(box: Sequence[int]) -> tuple[int, int]:
    """Return the pixel in the middle of a box."""
    return (box[0] + box[2]) // 2, (box[1] + box[3]) // 2


def covers(box: Sequence[int], point: tuple[int, int]) -> bool:
    """Return whether a box contains a pixel. Its right and bottom edges are exclusive."""
    return box[0] <= point[0] < box[2] and box[1] <= point[1] < box[3]


def calling(name: str, arguments: dict[str, Any]) -> Message:
    """Return an assistant message with one call."""
    return Message("assistant", "", (Call(name, arguments),))
