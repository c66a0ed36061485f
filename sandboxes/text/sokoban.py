"""`agentgym/text-sokoban-v1`: push every box onto a target."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field

from agentgym import Task, TaskError, tool

from .base import Axis, Puzzle, Script, TextEnvironment
from .grid import LETTERS, STEPS, Direction, Square, distances, squares_of, walker, way

MAX_STEPS, MAX_SIDE, MAX_BOXES = 10, 12, 5


class Sokoban(TextEnvironment):
    """Boxes that must be pushed onto targets. Everything is in memory, so nothing is isolated.

    Task parameters: `map`, rows of `#` wall, `_` floor, `.` target, `$` box, `*` box on a target, `@` you, `+` you on
    a target. A box can get stuck; `restart` restores the initial state.
    """

    task_set = "text/sokoban-v1"

    id = "agentgym/text-sokoban-v1"
    _floor: set[Square]
    _targets: list[Square]
    _pushes: list[Mapping[Square, int]]  # of a box to each target
    axes = {
        "size": Axis(4, MAX_SIDE - 2, "squares along a side of the room, walls not counted"),
        "boxes": Axis(1, MAX_BOXES, "boxes"),
        "pushes": Axis(1, 60, "pushes that the solution takes at least"),
        "pillars": Axis(0, 40, "percent of the room that is wall"),
    }
    levels = (
        {"size": 4, "boxes": 1, "pushes": 2, "pillars": 5},
        {"size": 4, "boxes": 1, "pushes": 4, "pillars": 10},
        {"size": 5, "boxes": 1, "pushes": 5, "pillars": 15},
        {"size": 4, "boxes": 2, "pushes": 4, "pillars": 5},
        {"size": 5, "boxes": 2, "pushes": 6, "pillars": 10},
        {"size": 6, "boxes": 2, "pushes": 8, "pillars": 15},
        {"size": 6, "boxes": 3, "pushes": 10, "pillars": 10},
        {"size": 7, "boxes": 3, "pushes": 13, "pillars": 15},
        {"size": 8, "boxes": 4, "pushes": 16, "pillars": 15},
    )

    def begin(self) -> dict[str, Any]:
        rows = self.parameter("map", list)
        if not rows or not all(isinstance(row, str) and not set(row) - set("#_.$*@+") for row in rows):
            raise self.refuse(f"the map {rows!r} contains characters other than '#_.$*@+'.")
        players, boxes, targets = squares_of(rows, "@+"), squares_of(rows, "$*"), squares_of(rows, ".*+")
        if len(players) != 1 or not 0 < len(boxes) == len(targets) <= MAX_BOXES:
            raise self.refuse(
                f"the map {rows!r} has {len(players)} players, {len(boxes)} boxes and {len(targets)} targets. It must "
                f"have one player, and as many boxes as targets, at most {MAX_BOXES}."
            )
        if max(len(rows), *map(len, rows)) > MAX_SIDE:
            raise self.refuse(f"the map {rows!r} is more than {MAX_SIDE} squares long.")
        self._floor, self._targets = set(squares_of(rows, "_.$*@+")), sorted(targets)
        self._pushes = [pushes_to(target, self._floor) for target in self._targets]
        return {"at": list(players[0]), "boxes": [list(box) for box in boxes]}

    def solved(self) -> bool:
        return sorted(map(tuple, self.state["boxes"])) == self._targets

    def nearness(self) -> float:
        """Return 1 / (1 + bound), a lower bound on the remaining pushes; 0 if a box can reach no target."""
        return 1 / (1 + pushes_left) if (pushes_left := self._left()) < 1_000 else 0.0

    def _left(self) -> int:
        boxes = [(row, column) for row, column in self.state["boxes"]]
        table = [[pushes.get(box, 1_000) for pushes in self._pushes] for box in boxes]
        return min(
            sum(row[target] for row, target in zip(table, order, strict=True))
            for order in itertools.permutations(range(len(boxes)))
        )

    @tool(inline=True)
    def move(self, steps: Annotated[list[Direction], Field(min_length=1, max_length=MAX_STEPS)]) -> str:
        """Take up to ten steps; a step towards a box pushes it."""
        self.check_open()
        for step in steps:
            self._step(STEPS[step])
            if self.solved():
                break
        self.settle()
        return "Every box is on a target." if self.solved() else self._drawn()

    @tool(inline=True)
    def restart(self) -> str:
        """Put everything back as it was."""
        self.check_open()
        self.state = self.begin()
        return self._drawn()

    def _step(self, by: Square) -> None:
        boxes, at = self.state["boxes"], self.state["at"]
        ahead, beyond = [at[0] + by[0], at[1] + by[1]], [at[0] + 2 * by[0], at[1] + 2 * by[1]]
        if tuple(ahead) not in self._floor:
            return
        if ahead in boxes:
            if tuple(beyond) not in self._floor or beyond in boxes:
                return
            boxes[boxes.index(ahead)] = beyond
            boxes.sort()
        self.state["at"] = ahead

    def _drawn(self) -> str:
        return drawn(self._parameters["map"], self.state["boxes"], self.state["at"], self._targets)

    @classmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        """Pull the boxes away from their targets; pushing them back the same way is the solution."""
        for attempt in range(2_000):
            min_pushes = max(axes["pushes"] - attempt // 100, 1)
            room = _pulled(rng, axes, min_pushes)
            if room is not None:
                rows, solution = room
                legend = "# is wall, _ floor, $ a box, . a target, * a box on a target, @ you, + you on a target"
                return Puzzle(
                    f"Push every box onto a target. {legend}. You may take several steps at once.\n" + "\n".join(rows),
                    {"map": rows},
                    {"solution": solution},
                )
        raise TaskError(f"{cls.id}: no room with {dict(axes)} was found. Ask for fewer pushes or pillars.")

    @staticmethod
    def oracle(task: Task) -> Script:
        """Walk the solution that the generator stored."""
        return walker(task, MAX_STEPS)


def pushes_to(target: Square, floor: Iterable[Square]) -> dict[Square, int]:
    """Return the pushes that a single box needs from each square to the target; squares without a way are absent."""
    floor, pushes, edge = set(floor), {target: 0}, [target]
    while edge:
        after = []
        for row, column in edge:
            for down, right in STEPS.values():  # the box came from there, pushed from the square beyond
                box, pusher = (row - down, column - right), (row - 2 * down, column - 2 * right)
                if box in floor and pusher in floor and box not in pushes:
                    pushes[box] = pushes[row, column] + 1
                    after.append(box)
        edge = after
    return pushes


def drawn(rows: list[str], boxes: Iterable[Any], at: Any, targets: Iterable[Square]) -> str:
    """Return the map with boxes, targets and player."""
    squares = [["#" if symbol == "#" else "_" for symbol in row] for row in rows]
    for row, column in targets:
        squares[row][column] = "."
    for row, column in boxes:
        squares[row][column] = "*" if squares[row][column] == "." else "$"
    squares[at[0]][at[1]] = "+" if squares[at[0]][at[1]] == "." else "@"
    return "\n".join("".join(row) for row in squares)


def _pulled(rng: random.Random, axes: Mapping[str, int], min_pushes: int) -> tuple[list[str], str] | None:
    """Return a room with the boxes pulled off their targets, and the steps that push them back; None if too few pushes
    result.
    """
    side = axes["size"]
    inside = [(row, column) for row in range(1, side + 1) for column in range(1, side + 1)]
    pillars = set(rng.sample(inside, round(len(inside) * axes["pillars"] / 100)))
    floor = [square for square in inside if square not in pillars]
    targets = rng.sample(floor, axes["boxes"])
    boxes = list(targets)
    standing = [square for square in floor if square not in boxes]
    at = rng.choice(standing)
    room, solution, pushes, last = set(floor), "", 0, -1
    been = {frozenset(boxes)}  # no arrangement occurs twice, so that no push undoes another
    for _ in range(min_pushes * 4):
        reach = distances(room - set(boxes), at)
        choices = []
        for number, (row, column) in enumerate(boxes):
            for letter, name in LETTERS.items():
                down, right = STEPS[
                    name
                ]  # the solution will push the box to `name`; here it is pulled back the other way
                behind, before = (row - down, column - right), (row - 2 * down, column - 2 * right)
                after = frozenset({*boxes, behind} - {boxes[number]})
                if behind in reach and before in room and before not in boxes and after not in been:
                    choices.append((number, letter, behind, before))
        if not choices:
            break
        same = [choice for choice in choices if choice[0] == last]
        number, letter, behind, before = rng.choice(same if same and rng.random() < 0.6 else choices)
        # put before the later steps: this push, and the walk from where it ends to where the later steps begin
        solution = letter + way(room - set(boxes), behind, at) + solution
        boxes[number], at, last, pushes = behind, before, number, pushes + 1
        been.add(frozenset(boxes))
        if pushes >= min_pushes and not set(boxes) & set(targets):
            break
    reachable = set(distances(room, at))
    if pushes < min_pushes or set(boxes) & set(targets) or not {*boxes, *targets} <= reachable:
        return None
    rows = ["".join("#" if (r, c) not in reachable else "_" for c in range(side + 2)) for r in range(side + 2)]
    return drawn(rows, boxes, at, targets).split("\n"), solution
