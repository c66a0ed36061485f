"""Squares, directions and distances, for the environments on a grid."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from agentgym import Call, Message, Task

from .base import Script

Direction = Literal["up", "down", "left", "right"]
Square = tuple[int, int]
STEPS: Mapping[str, Square] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
LETTERS = {"U": "up", "D": "down", "L": "left", "R": "right"}
"""Solutions are stored as one letter per step."""


def distances(free: Iterable[Square], start: Square) -> dict[Square, int]:
    """Return the number of steps from `start` to every free square reachable over free squares."""
    unseen, steps_to, waiting = set(free) - {start}, {start: 0}, deque([start])
    while waiting:
        row, column = square_from = waiting.popleft()
        for down, right in STEPS.values():
            square = row + down, column + right
            if square in unseen:
                unseen.remove(square)
                steps_to[square] = steps_to[square_from] + 1
                waiting.append(square)
    return steps_to


def way(free: Iterable[Square], start: Square, goal: Square) -> str:
    """Return a shortest path over free squares as the letters of its moves. Raises: KeyError if there is none."""
    remaining = distances(free, goal)
    letters, at = "", start
    while at != goal:
        for letter, name in LETTERS.items():
            square = at[0] + STEPS[name][0], at[1] + STEPS[name][1]
            if remaining.get(square, remaining[at]) < remaining[at]:
                letters, at = letters + letter, square
                break
    return letters


def squares_of(rows: Sequence[str], symbols: str) -> list[Square]:
    """Return the squares with any of the symbols, row by row."""
    return [(r, c) for r, row in enumerate(rows) for c, symbol in enumerate(row) if symbol in symbols]


def walker(task: Task, at_once: int) -> Script:
    """Return a script that walks `truth["solution"]`, `at_once` steps per turn."""
    steps = [LETTERS[letter] for letter in task.truth["solution"]]

    def script(messages: Sequence[Message]) -> Message:
        turn = sum(message.role == "assistant" for message in messages)
        part = steps[turn * at_once : (turn + 1) * at_once]
        return Message("assistant", "", (Call("move", {"steps": part}),)) if part else Message("assistant", "Done.")

    return script
