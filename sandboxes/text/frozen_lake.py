"""`agentgym/text-frozen-lake-v1`: cross a frozen lake without falling into a hole."""

from __future__ import annotations

import random
from collections.abc import Mapping
from math import ceil
from typing import Annotated, Any

from pydantic import Field

from agentgym import Outlook, Task, seed_of, tool

from .base import Axis, Puzzle, Script, TextEnvironment
from .grid import STEPS, Direction, Square, distances, squares_of, walker, way

MAX_STEPS, MAX_SIDE = 5, 16
TURNED = {"up": ("left", "right"), "down": ("right", "left"), "left": ("down", "up"), "right": ("up", "down")}


class FrozenLake(TextEnvironment):
    """A walk over ice from the start to the goal. Everything is in memory, so nothing is isolated.

    Task parameters: `map`, rows of `S` start, `G` goal, `O` hole and `_` ice; `slip`, percent of steps that go
    sideways (optional, 0). The episode's seed determines which steps slip.
    Source: the lake is Gymnasium's FrozenLake; several steps a turn as in RAGEN, arXiv:2504.20073.
    """

    task_set = "text/frozen-lake-v1"

    id = "agentgym/text-frozen-lake-v1"
    _holes: set[Square]
    _shape: tuple[int, int]
    _goal: Square
    _slip: int
    _left: Mapping[Square, int]  # steps to the goal
    axes = {
        "size": Axis(3, MAX_SIDE, "squares along a side"),
        "holes": Axis(0, 60, "percent of the squares that are holes"),
        "length": Axis(1, 100, "steps that the shortest way takes at least"),
        "slip": Axis(0, 100, "percent of steps that go sideways"),
    }
    levels = (
        {"size": 4, "holes": 15, "length": 5},
        {"size": 4, "holes": 25, "length": 5},
        {"size": 5, "holes": 25, "length": 6},
        {"size": 5, "holes": 35, "length": 7},
        {"size": 6, "holes": 30, "length": 8},
        {"size": 6, "holes": 40, "length": 9},
        {"size": 7, "holes": 40, "length": 10},
        {"size": 8, "holes": 40, "length": 12},
        {"size": 9, "holes": 40, "length": 14},
        {"size": 10, "holes": 45, "length": 18},
    )

    def begin(self) -> dict[str, Any]:
        rows = self.parameter("map", list)
        well_formed = all(
            isinstance(row, str) and len(row) == len(rows[0]) and not set(row) - set("SGO_") for row in rows
        )
        if not rows or not well_formed or max(len(rows), len(rows[0])) > MAX_SIDE:
            raise self.refuse(
                f"the map {rows!r} must have rows of one length, at most {MAX_SIDE}, made of S, G, O and _."
            )
        starts, goals = squares_of(rows, "S"), squares_of(rows, "G")
        self._holes = set(squares_of(rows, "O"))
        self._shape = len(rows), len(rows[0])
        if len(starts) != 1 or len(goals) != 1:
            raise self.refuse(
                f"the map {rows!r} has {len(starts)} starts and {len(goals)} goals, but it must have one of each."
            )
        self._slip, self._goal = self.parameter("slip", int, 0), goals[0]
        self._left = distances(squares_of(rows, "SG_"), self._goal)
        if starts[0] not in self._left:
            raise self.refuse(f"the map {rows!r} has no way from start to goal.")
        return {"at": list(starts[0]), "steps": 0}

    @property
    def _at(self) -> Square:
        return self.state["at"][0], self.state["at"][1]

    def canonical(self) -> Any:
        """Return the position; the number of steps only decides which step slips next."""
        return self.state["at"]

    def solved(self) -> bool:
        return self._at == self._goal

    def lost(self) -> bool:
        return self._at in self._holes

    def nearness(self) -> float:
        """Return 1 - remaining steps / steps from the farthest square; 0 in a hole."""
        return 1 - self._left[self._at] / max(self._left.values()) if self._at in self._left else 0.0

    async def outlook(self) -> Outlook:
        """Return the outlook: the turns of the shortest way, with five steps per turn; unknown if steps may slip."""
        is_known = not self._slip and self._at in self._left
        return Outlook(turns_needed=ceil(self._left[self._at] / MAX_STEPS) if is_known else None)

    @tool(inline=True)
    def move(self, steps: Annotated[list[Direction], Field(min_length=1, max_length=MAX_STEPS)]) -> str:
        """Take up to five steps."""
        self.check_open()
        for step in steps:
            self._step(step)
            if self.solved() or self.lost():
                break
        self.settle()
        if self.lost():
            return "You fell into a hole."
        return "You reached the goal." if self.solved() else self._drawn()

    def _step(self, step: str) -> None:
        if self._slip:
            rng = random.Random(seed_of(self.id, self.seed, self.state["steps"]))
            if rng.random() * 100 < self._slip:
                step = rng.choice(TURNED[step])
        self.state["steps"] += 1
        row, column = self._at[0] + STEPS[step][0], self._at[1] + STEPS[step][1]
        if 0 <= row < self._shape[0] and 0 <= column < self._shape[1]:
            self.state["at"] = [row, column]

    def _drawn(self) -> str:
        rows = [list(row.replace("S", "_")) for row in self._parameters["map"]]
        rows[self._at[0]][self._at[1]] = "P"
        return "\n".join(map("".join, rows))

    @classmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        side = axes["size"]
        squares = [(row, column) for row in range(side) for column in range(side)]
        holes = round(len(squares) * axes["holes"] / 100)
        length = min(axes["length"], 2 * (side - 1))
        for attempt in range(10_000):
            if attempt and attempt % 40 == 0:  # so many holes leave too little room for so long a way
                holes, length = max(holes - 1, 0), max(length - (attempt % 80 == 0), 1)
            rng.shuffle(squares)
            ice = squares[holes:]
            reach = distances(ice, ice[0])
            far = [square for square, steps in reach.items() if steps >= length]
            if far:
                start, goal = ice[0], rng.choice(far)
                break
        rows = [["_"] * side for _ in range(side)]
        for symbol, marked in (("O", squares[:holes]), ("S", [start]), ("G", [goal])):
            for row, column in marked:
                rows[row][column] = symbol
        drawn = ["".join(row) for row in rows]
        slips = f" The ice is slippery: {axes['slip']} % of your steps go sideways." if axes["slip"] else ""
        return Puzzle(
            "Walk over the ice from P to the goal G; _ is ice, O is a hole to fall into. You may take several "
            f"steps at once.{slips}\n" + "\n".join(drawn).replace("S", "P"),
            {"map": drawn, **({"slip": axes["slip"]} if axes["slip"] else {})},
            {"solution": way(ice, start, goal)},
        )

    @staticmethod
    def oracle(task: Task) -> Script:
        """Walk a shortest way, without checking the position, so this may fail on slippery ice."""
        return walker(task, MAX_STEPS)

    @staticmethod
    def imperfect_oracle(task: Task) -> Script:
        """Walk straight towards the goal, ignoring holes."""
        start, goal = (squares_of(task.parameters["map"], symbol)[0] for symbol in "SG")
        down, right = goal[0] - start[0], goal[1] - start[1]
        straight = ("D" if down > 0 else "U") * abs(down) + ("R" if right > 0 else "L") * abs(right)
        return walker(Task(task.id, task.environment, task.prompt, truth={"solution": straight}), MAX_STEPS)
