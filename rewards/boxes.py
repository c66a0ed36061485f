"""Boxes and points on a screen, for the rewards of pointing. A box is (left, top, right, bottom) in pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from agentgym import Call, JudgeError, Trajectory

Box = tuple[float, float, float, float]
Point = tuple[float, float]
MAX_SIDE = 2**31
"""A larger number is not a coordinate: no screen is as large, and the area of a larger box would be inexact."""


def true_box(episode: Trajectory, judge: str, name: str = "box") -> Box:
    """Return `truth["box"]`. Raises: JudgeError if the task has none."""
    truth = episode.task.truth
    box = as_box(truth.get(name)) if isinstance(truth, Mapping) else None
    if box is None:
        raise JudgeError(f"{judge} needs truth[{name!r}] of {episode.task.id} as four numbers, and the task has none.")
    return box


def as_box(value: Any) -> Box | None:
    """Return a box of four coordinates with left < right and top < bottom; None for anything else."""
    if not isinstance(value, (list, tuple)) or len(value) != 4 or not all(map(is_coordinate, value)):
        return None
    left, top, right, bottom = map(float, value)
    return (left, top, right, bottom) if left < right and top < bottom else None


def is_coordinate(value: Any) -> TypeGuard[float]:
    """Return whether a value is a number of pixels that a screen can have."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= MAX_SIDE


def final_call(episode: Trajectory) -> Call | None:
    """Return the first final call that succeeded: the agent's answer."""
    for turn in episode.turns:
        for call, result in zip(turn.calls, turn.results, strict=False):
            if result.final and result.ok:
                answer: Call = call
                return answer
    return None


def answered_box(episode: Trajectory) -> Box | None:
    """Return the box that the agent answered with; None for a point or no answer."""
    call = final_call(episode)
    sides = () if call is None else ("left", "top", "right", "bottom")
    return as_box([call.arguments.get(side) for side in sides]) if call is not None else None


def answered_point(episode: Trajectory) -> Point | None:
    """Return the agent's point, or the centre of its box; None without either."""
    call = final_call(episode)
    if call is None:
        return None
    x, y = call.arguments.get("x"), call.arguments.get("y")
    if is_coordinate(x) and is_coordinate(y):
        return float(x), float(y)
    box = answered_box(episode)
    return None if box is None else ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)


def inside(point: Point, box: Box) -> bool:
    """Return whether a box contains a pixel. Its right and bottom edges are exclusive."""
    return box[0] <= point[0] < box[2] and box[1] <= point[1] < box[3]


def overlap(a: Box, b: Box) -> float:
    """Return intersection over union, 0 to 1."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    both = area(a) + area(b) - shared
    return min(1.0, shared / both) if both > 0 else 0.0


def area(box: Box) -> float:
    """Return width times height."""
    return (box[2] - box[0]) * (box[3] - box[1])
