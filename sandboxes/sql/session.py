"""`agentgym/sql-session-v1`: questions and changes that come one at a time, on one table of a real SQLite database."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from agentgym import (
    Checkpoint,
    GuestModule,
    GuestObject,
    GuestStopped,
    Message,
    SandboxSpec,
    Task,
    TaskError,
    ToolError,
    tool,
)

from ..session import SessionEnvironment
from .guest_session import NumberTable
from .limits import SqlLimits

ENGINE = GuestModule(__package__, "guest", "guest_session")


class StockSession(SessionEnvironment):
    """Base of the sandboxed environment and the one in this process. The subclasses decide what is isolated.

    Task parameters, in addition to those of every session: `items`, `cities` and `numbers`, the table `stock` row by
    row. A goal is `{"answer": text}`: the result must show the text, and nothing may change; or `{"cell": [city, item],
    "number": n}`: that cell must hold n afterwards, and no other cell may have changed in this turn.

    Args:
        limits: fields of `SqlLimits`, such as `max_rows=50`.
    """

    def __init__(self, **limits: Any) -> None:
        super().__init__()
        self.limits = SqlLimits(**limits)
        self._items: list[str] = []
        self._cities: list[str] = []
        self._numbers: list[int] = []

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Create the table. Raises: TaskError if the parameters do not describe a table."""
        self._items, self._cities, self._numbers = _table_of(task)
        opening = await super().reset(task, seed=seed)
        await self.open_table()
        return opening

    def system_text(self) -> str:
        return f"stock(city, {', '.join(self._items)})"

    @abstractmethod
    async def open_table(self) -> None:
        """Create a new table with the current numbers."""

    def table_arguments(self) -> tuple[Any, ...]:
        """Return the arguments of `NumberTable`."""
        limits = self.limits
        table = (self._items, self._cities, self._numbers)
        return (*table, limits.max_rows, limits.max_chars, limits.query_s, limits.max_columns)

    def judged(self, reply: Mapping[str, Any]) -> str:
        """Return the result of a statement, from the table's reply.

        Raises: ToolError with the same text if the statement was refused.
        """
        before, self._numbers = self._numbers, list(reply["numbers"])
        right = not reply["refused"] and self._is_right(reply["text"], before)
        text = self.next_request(reply["text"], right=right)
        if reply["refused"]:
            raise ToolError(text)
        return text

    def _is_right(self, text: str, before: list[int]) -> bool:
        goal = self.goal
        if "answer" in goal:
            return bool(text == goal["answer"] and self._numbers == before)
        city, item = goal["cell"]
        expected = [*before]
        expected[self._cities.index(city) * len(self._items) + self._items.index(item)] = goal["number"]
        return self._numbers == expected

    async def state_key(self) -> str | None:
        """Return a hash of the task, every number, and the verdicts so far."""
        return self.session_key(str(self._numbers))

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({"verdicts": self._verdicts, "numbers": [*self._numbers]})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await super().restore(task, checkpoint, seed=seed)
        self._numbers = [*checkpoint.data["numbers"]]
        await self.open_table()


class SqlSession(StockSession):
    """Requests on one SQLite table in a sandbox. Isolated: the engine, which runs the agent's SQL.

    Task parameters as for `StockSession`.
    """

    task_set = "sql/session-v1"

    sandbox = SandboxSpec(memory_mib=256, processes=16, disk_mib=32, preload=("json", "re", "sqlite3"))

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self._table: GuestObject | None = None

    async def open_table(self) -> None:
        sandbox = await self.default_sandbox()
        self._table = ENGINE.object(
            sandbox, "NumberTable.in_sandbox", *self.table_arguments(), timeout_s=self.limits.wall_s(0)
        )

    @tool(parallel=False)
    async def sql(self, statement: str) -> str:
        """Run one SELECT or UPDATE."""
        self.check_open()
        assert self._table is not None  # created by reset
        try:
            reply = await self._table.call("run", statement)
        except GuestStopped as error:
            await self.open_table()  # the engine has ended, and no effect of the statement remains
            raise ToolError(self.next_request(str(error), right=False)) from error
        except asyncio.CancelledError:
            await self.open_table()
            raise
        return self.judged(reply)


class SqlSessionInProcess(StockSession):
    """Requests on one SQLite table in the training process itself. Nothing is isolated by the kernel here.

    The engine and its guard are the same as in the sandbox. As in `agentgym/sql-inprocess-v1`, there is no limit on
    memory and no second barrier, so use it for trusted policies.

    Task parameters as for `StockSession`.
    """

    task_set = "sql/session-inprocess-v1"

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self._table: NumberTable | None = None

    async def open_table(self) -> None:
        self._close_table()
        self._table = NumberTable(*self.table_arguments())

    @tool(inline=True)
    def sql(self, statement: str) -> str:
        """Run one SELECT or UPDATE."""
        self.check_open()
        assert self._table is not None  # created by reset
        return self.judged(self._table.run(statement))

    async def close(self) -> None:
        self._close_table()
        await super().close()

    def _close_table(self) -> None:
        if self._table is not None:
            self._table.close()
            self._table = None


def _table_of(task: Task) -> tuple[list[str], list[str], list[int]]:
    """Return the task's table. Raises: TaskError."""
    items: Any
    cities: Any
    numbers: Any
    items, cities, numbers = (task.parameters.get(name) for name in ("items", "cities", "numbers"))
    if not (_are_names(items, reserved="city") and _are_names(cities) and list(cities) == sorted(cities)):
        raise TaskError(
            f"{task.id}: parameters['items'] is {items!r:.80} and parameters['cities'] is {cities!r:.80}. Give "
            "different names, and the cities in alphabetical order."
        )
    cells = len(items) * len(cities)
    if not (isinstance(numbers, list | tuple) and [type(number) for number in numbers] == [int] * cells):
        raise TaskError(
            f"{task.id}: parameters['numbers'] must have a whole number for each cell, but it is {numbers!r:.80}."
        )
    return list(items), list(cities), list(numbers)


def _are_names(value: Any, reserved: str = "") -> bool:
    """Return whether all names are distinct, accepted by SQL without quotes, and not reserved."""
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name.isidentifier() for name in value):
        return False
    return len({*value, reserved}) == len(value) + 1
