"""Generate the sessions: requests about cells, and the required result of each request."""

from __future__ import annotations

import random
from functools import cache, partial
from typing import Any

from agentgym import Task, TaskSet

from ..generator import TaskSlot
from ..horizon import horizon_task_set
from .words import CITIES, FORMS, ITEMS, REQUESTS

NAME, NAME_INPROCESS = "sql/session-v1", "sql/session-inprocess-v1"
LOW, HIGH = 10, 99
"""The range of the numbers in the table."""
DEPENDENT = 0.45
"""The probability that a request depends on a recent change, if there is one. About a third of all requests do."""
LATELY = 4
"""For this many turns after a change, a request can depend on the change."""


@cache
def session(seed: int = 0) -> TaskSet:
    """Questions and changes on one SQLite table, one request a turn, over 2 to 32 turns, in a sandbox.

    The seed chooses the tables and the requests.

    Held-out tasks carry the tag `unseen_instances` (requests about pairs of item and city that no other stratum asks
    about) or `unseen_horizons` (numbers of requests that no training task has). Difficulty is the horizon.
    """
    return _build(NAME, "agentgym/sql-session-v1", seed)


@cache
def session_inprocess(seed: int = 0) -> TaskSet:
    """The sessions of `sql/session-v1` for the environment in the process that plays."""
    return _build(NAME_INPROCESS, "agentgym/sql-session-inprocess-v1", seed)


def _build(name: str, environment: str, seed: int) -> TaskSet:
    make_task = partial(_task, environment=environment)
    return horizon_task_set(
        name, make_task, seed, stream=NAME, oracle=REQUESTS.oracle, imperfect_oracle=REQUESTS.imperfect_oracle
    )


def is_reserved(cell: int) -> bool:
    """Return whether a cell, a pair of item and city, is reserved for `unseen_instances`; two cells of each row and
    column are.
    """
    city, item = divmod(cell, len(ITEMS))
    return (item - city) % 4 == 0


CELLS = {
    reserved: [n for n in range(len(ITEMS) * len(CITIES)) if is_reserved(n) is reserved] for reserved in (True, False)
}


def _task(rng: random.Random, slot: TaskSlot, horizon: int, *, environment: str) -> Task:
    numbers = rng.sample(range(LOW, HIGH + 1), len(ITEMS) * len(CITIES))
    writer = StockWriter(rng, numbers, CELLS[slot.stratum == "unseen_instances"])
    written = [writer.write() for _ in range(horizon)]
    return Task(
        id=slot.id,
        environment=environment,
        prompt=written[0][0],
        parameters={
            "horizon": horizon,
            "items": list(ITEMS),
            "cities": list(CITIES),
            "numbers": numbers,
            "requests": [request for request, _, _ in written],
            "goals": [goal for _, goal, _ in written],
        },
        truth={"statements": [statement for _, _, statement in written]},
        split=slot.split,
        tags=(f"horizon_{horizon}", *slot.tags),
        difficulty=float(horizon),
    )


class StockWriter:
    """Writes a session's requests one after another, each for the numbers as the right statements have changed them so
    far.

    At any time all numbers of the table differ, so that the number of another cell is a wrong answer.

    Attributes:
        dependent: number of requests so far that depend on an earlier one.
    """

    def __init__(self, rng: random.Random, numbers: list[int], cells: list[int]) -> None:
        self._rng, self._numbers, self._cells = rng, [*numbers], cells
        self._changes: list[int | None] = []  # the cell changed by each request so far
        self.dependent = 0

    def write(self) -> tuple[str, dict[str, Any], str]:
        """Write one more request. Returns: the request, its goal, and the statement that fulfils it."""
        rng = self._rng
        lately = [cell for cell in self._changes[-LATELY:] if cell is not None]
        if lately and rng.random() < DEPENDENT:
            self.dependent += 1
            return self._about(rng.choice(lately), rng.choice(("count", "which", "add")))
        changed = set(self._changes)
        if fresh := [cell for cell in self._cells if cell not in changed]:
            return self._about(rng.choice(fresh), rng.choice(("count", "which", "set", "add")))
        return self._about(rng.choice(self._cells), "set")  # replaces any value: independent of earlier requests

    def _about(self, cell: int, kind: str) -> tuple[str, dict[str, Any], str]:
        number = after = self._numbers[cell]
        free = set(range(LOW, HIGH + 1)).difference(self._numbers)
        if kind == "add":
            steps = [step for step in range(1, 10) if after + step in free]
            kind = "add" if steps else "count"
        if kind == "add":
            number = self._rng.choice(steps)
            after += number
        elif kind == "set":
            number = after = self._rng.choice(sorted(free))
        city, item = CITIES[cell // len(ITEMS)], ITEMS[cell % len(ITEMS)]
        goal: dict[str, Any] = {"answer": str(after) if kind == "count" else city}
        if is_change := kind in ("set", "add"):
            goal = {"cell": [city, item], "number": after}
            self._numbers[cell] = after
        self._changes.append(cell if is_change else None)
        request, statement = (form.format(item=item, city=city, number=number) for form in FORMS[kind])
        return request, goal, statement
