"""`agentgym/text-sudoku-v1`: fill the grid so that no row, column or box holds a value twice."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from agentgym import Call, Message, Task, ToolError, seed_of, tool

from .base import Axis, Puzzle, Script, TextEnvironment

BOXES = {4: (2, 2), 6: (2, 3), 9: (3, 3)}
"""Rows and columns of a box, by the side of the grid."""
AT_ONCE = 10


class Cell(BaseModel):
    """One value and where it goes; rows and columns count from 1."""

    model_config = ConfigDict(extra="forbid")

    row: int
    column: int
    value: int


class Sudoku(TextEnvironment):
    """A grid with one solution. Everything is in memory, so nothing is isolated.

    Task parameters: `grid`, rows of digits with 0 where nothing is given. A value that is already in its row, column
    or box is refused; any other wrong value is accepted and can be corrected later (0 empties a cell).
    """

    task_set = "text/sudoku-v1"

    id = "agentgym/text-sudoku-v1"
    _side: int
    _given: list[int]
    _solution: list[int]
    axes = {
        "side": Axis(4, 9, "rows of the grid: 4, 6 or 9"),
        "empty": Axis(1, 55, "cells to be filled, at most; fewer where the solution would not be the only one"),
    }
    levels = (
        {"side": 4, "empty": 4},
        {"side": 4, "empty": 6},
        {"side": 4, "empty": 8},
        {"side": 4, "empty": 10},
        {"side": 6, "empty": 8},
        {"side": 6, "empty": 14},
        {"side": 6, "empty": 22},
        {"side": 9, "empty": 30},
        {"side": 9, "empty": 45},
    )

    def begin(self) -> dict[str, Any]:
        rows = self.parameter("grid", list)
        side = len(rows)
        values = "".join(map(str, range(side + 1)))
        if side not in BOXES or not all(
            isinstance(row, str) and len(row) == side and not set(row) - set(values) for row in rows
        ):
            raise self.refuse(
                f"the grid {rows!r} must have 4, 6 or 9 rows of as many digits, with 0 for an empty cell."
            )
        given = [int(digit) for row in rows for digit in row]
        self._side, self._given, solutions = side, given, solve(given, side, most=2)
        if len(solutions) != 1:
            raise self.refuse(f"the grid {rows!r} has {'several solutions' if solutions else 'no solution'}.")
        self._solution = solutions[0]
        return {"grid": list(given)}

    def solved(self) -> bool:
        return bool(self.state["grid"] == self._solution)

    def nearness(self) -> float:
        """Return the right cells minus the wrong cells, divided by the cells that were empty; at least 0."""
        pairs = [
            (now, right)
            for now, right, was in zip(self.state["grid"], self._solution, self._given, strict=True)
            if not was
        ]
        score = sum((now == right) - (now not in (0, right)) for now, right in pairs)
        return max(score, 0) / len(pairs) if pairs else 1.0

    @tool(inline=True)
    def place(self, cells: Annotated[list[Cell], Field(min_length=1, max_length=AT_ONCE)]) -> str:
        """Fill up to ten cells; the value 0 empties one."""
        self.check_open()
        refused = [why for cell in cells if (why := self._fill(cell))]
        self.settle()
        if self.solved():
            return "Solved."
        if len(refused) == len(cells):
            raise ToolError(" ".join(refused))
        return "\n".join([*refused, drawn(self.state["grid"], self._side)])

    def _fill(self, cell: Cell) -> str:
        """Fill one cell. Returns: the reason if it is refused, else an empty string."""
        row, column, value = cell.row - 1, cell.column - 1, cell.value
        if not (0 <= row < self._side and 0 <= column < self._side and 0 <= value <= self._side):
            return f"Rows, columns and values go from 1 to {self._side}."
        grid, where, index = self.state["grid"], f"row {row + 1}, column {column + 1}", row * self._side + column
        if self._given[index]:
            return f"The {self._given[index]} in {where} is given."
        if value and any(grid[other] == value for other in neighbours(self._side)[index]):
            return f"A {value} in {where} is twice in its row, column or box."
        grid[index] = value
        return ""

    @classmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        side = min(BOXES, key=lambda known_side: abs(known_side - axes["side"]))
        full = _full(rng, side)
        grid, to_empty = list(full), axes["empty"]
        for index in rng.sample(range(side * side), side * side):
            if not to_empty:
                break
            grid[index] = 0
            if len(solve(grid, side, most=2)) == 1:
                to_empty -= 1
            else:
                grid[index] = full[index]
        box = " by ".join(map(str, BOXES[side]))
        rows = ["".join(map(str, grid[start : start + side])) for start in range(0, side * side, side)]
        return Puzzle(
            f"Fill the empty cells (.) so that every row, column and {box} box holds 1 to {side} once.\n"
            + drawn(grid, side),
            {"grid": rows},
            {"solution": "".join(map(str, full))},
        )

    @staticmethod
    def oracle(task: Task) -> Script:
        """Solve the grid of the task parameters; the truth is not read."""
        side = len(task.parameters["grid"])
        given = [int(digit) for row in task.parameters["grid"] for digit in row]
        return _filler(given, solve(given, side, most=1)[0], side)

    @staticmethod
    def imperfect_oracle(task: Task) -> Script:
        """Fill each cell with a random value that is not yet in its row, column or box."""
        rng = random.Random(seed_of("novice", task.id))
        side = len(task.parameters["grid"])
        given = [int(digit) for row in task.parameters["grid"] for digit in row]
        values = list(given)
        for index, value in enumerate(given):
            if not value:
                free = set(range(1, side + 1)) - {values[other] for other in neighbours(side)[index]}
                values[index] = rng.choice(sorted(free) or [1])
        return _filler(given, values, side)


def _filler(given: Sequence[int], values: Sequence[int], side: int) -> Script:
    empty = [index for index, value in enumerate(given) if not value]

    def script(messages: Sequence[Message]) -> Message:
        turn = sum(message.role == "assistant" for message in messages)
        part = empty[turn * AT_ONCE : (turn + 1) * AT_ONCE]
        cells = [{"row": p // side + 1, "column": p % side + 1, "value": values[p]} for p in part]
        return Message("assistant", "", (Call("place", {"cells": cells}),)) if cells else Message("assistant", "Done.")

    return script


_NEIGHBOURS: dict[int, list[tuple[int, ...]]] = {}


def neighbours(side: int) -> list[tuple[int, ...]]:
    """Return for each cell the other cells of its row, column and box."""
    if side not in _NEIGHBOURS:
        tall, wide = BOXES[side]
        cells = [(index // side, index % side) for index in range(side * side)]
        _NEIGHBOURS[side] = [
            tuple(
                other
                for other, (r, c) in enumerate(cells)
                if (r, c) != (row, column)
                and (r == row or c == column or (r // tall, c // wide) == (row // tall, column // wide))
            )
            for row, column in cells
        ]
    return _NEIGHBOURS[side]


def solve(grid: Sequence[int], side: int, *, most: int) -> list[list[int]]:
    """Return up to `most` solutions of a grid (0 is empty), always filling the cell with the fewest choices."""
    near, solutions, cells = neighbours(side), [], list(grid)
    everything = (1 << side) - 1
    free = [everything] * len(cells)
    for index, value in enumerate(cells):
        for other in near[index] if value else ():
            free[other] &= ~(1 << value - 1)
    if any(value and not free[index] >> value - 1 & 1 for index, value in enumerate(cells)):
        return []
    open_cells = {index for index, value in enumerate(cells) if not value}

    def fill() -> bool:
        """Fill the next free square in every way. Returns: whether `most` solutions were found."""
        if not open_cells:
            solutions.append(list(cells))
            return len(solutions) >= most
        best, fewest = -1, side + 1
        for index in open_cells:
            count = free[index].bit_count()
            if count < fewest:
                best, fewest = index, count
                if count <= 1:
                    break
        choices = free[best]
        open_cells.remove(best)
        while choices:
            bit = choices & -choices
            choices ^= bit
            cells[best] = bit.bit_length()
            changed = [other for other in near[best] if other in open_cells and free[other] & bit]
            for other in changed:
                free[other] ^= bit
            if all(free[other] for other in changed) and fill():
                return True
            for other in changed:
                free[other] ^= bit
        cells[best] = 0
        open_cells.add(best)
        return False

    fill()
    return solutions


def drawn(grid: Sequence[int], side: int) -> str:
    """Return the grid as rows of digits with spaces between, `.` for an empty cell."""
    text = [str(value or ".") for value in grid]
    return "\n".join(" ".join(text[start : start + side]) for start in range(0, side * side, side))


def _full(rng: random.Random, side: int) -> list[int]:
    """Return a full grid: the standard pattern with values renamed, and rows and columns permuted within and between
    bands.
    """
    tall, wide = BOXES[side]

    def order(band: int) -> list[int]:
        """Return the lines in a random order that keeps bands of `band` lines together."""
        bands = rng.sample(range(side // band), side // band)
        return [band_index * band + line for band_index in bands for line in rng.sample(range(band), band)]

    names = rng.sample(range(1, side + 1), side)
    rows, columns = order(tall), order(wide)
    return [names[(wide * (row % tall) + row // tall + column) % side] for row in rows for column in columns]
