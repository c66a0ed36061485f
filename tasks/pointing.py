"""Scripted players that point at a screen: one at what was asked for, the other at something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym.messages import Call, Message

AROUND = 40
"""Pixels on each side that a player looks at together with what it points at."""


def looks_and_points(box: Sequence[int], size: Sequence[int], *, boxed: bool = False) -> list[Message]:
    """Enlarges what is around a box of a screen of that size, then points at its middle, or boxes it."""
    left, top, right, bottom = box
    near = {
        "left": max(0, left - AROUND), "top": max(0, top - AROUND),
        "right": min(size[0], right + AROUND), "bottom": min(size[1], bottom + AROUND),
    }  # fmt: skip
    answer = calling("box", {"left": left, "top": top, "right": right, "bottom": bottom}) if boxed else points(box)
    return [calling("zoom", near), answer]


def points(box: Sequence[int]) -> Message:
    """Points at the middle of a box."""
    x, y = middle(box)
    return calling("point", {"x": x, "y": y})


def elsewhere(boxes: Sequence[Sequence[int]], truth: Sequence[int]) -> list[Sequence[int]]:
    """Those boxes whose middle is not in the true one."""
    return [box for box in boxes if not covers(truth, middle(box))]


def middle(box: Sequence[int]) -> tuple[int, int]:
    """The pixel in the middle of a box."""
    return (box[0] + box[2]) // 2, (box[1] + box[3]) // 2


def covers(box: Sequence[int], point: tuple[int, int]) -> bool:
    """Whether a pixel belongs to a box, whose right and bottom sides are outside."""
    return box[0] <= point[0] < box[2] and box[1] <= point[1] < box[3]


def calling(name: str, arguments: dict[str, Any]) -> Message:
    """An agent's message that is one call."""
    return Message("assistant", "", (Call(name, arguments),))
