"""How fast the SQL environments step, compared with the bare engine in the same process."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing

from environments_row import Row

from agentgym import Call, Task, load_task_set, make
from agentgym.registry import close_backends, load

ENVIRONMENTS = {
    "agentgym/sql-inprocess-v1": "sql/schemas-inprocess-v1",
    "agentgym/sql-query-v1": "sql/schemas-v1",
    "agentgym/sql-duckdb-v1": "sql/schemas-duckdb-v1",
    "agentgym/sql-write-v1": "sql/changes-v1",
    "agentgym/sql-postgres-v1": "sql/changes-postgres-v1",
}
CALLS = 8
"""Queries of an episode, before its final call."""
AGAINST = "sqlite3 execute, fetchall and join"


def measure(budget_s: float) -> list[Row]:
    """Measure calls in an open episode, and whole episodes, of every SQL environment that this machine can play.

    Args:
        budget_s: approximate CPU seconds for each row.
    """
    return asyncio.run(_measure(budget_s))


async def _measure(budget_s: float) -> list[Row]:
    queries = [task.truth["sql"] for task in load_task_set("sql/schemas-v1")["train"] if task.tags[1] == "library"][:64]
    bare = _bare(queries, budget_s)
    rows = [Row(AGAINST, bare, "", 0.0)]
    try:
        for name, set_name in ENVIRONMENTS.items():
            if reason := load("environments", name).unavailable_reason():
                print(f"{name}: left out. {reason}")
                continue
            task = next(task for task in load_task_set(set_name)["train"] if task.tags[1] == "library")
            calls = await _calls(task, queries, budget_s)
            rows.append(Row(f"{name}, a query", calls, AGAINST, calls / bare))
            episodes = await _episodes(task, queries, budget_s)
            rows.append(Row(f"{name}, steps of whole episodes", episodes, AGAINST, episodes / bare))
    finally:
        await close_backends()
    return rows


def _bare(queries: list[str], budget_s: float) -> float:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(load("assets", "sql/schemas")(seed=0))

        def step(number: int) -> None:
            rows = connection.execute(queries[number % len(queries)]).fetchmany(21)
            "\n".join(" | ".join(map(str, row)) for row in rows)

        return _rate(step, budget_s)


def _rate(step: Callable[[int], None], budget_s: float) -> float:
    started, number = time.process_time(), 0
    while (taken := time.process_time() - started) < budget_s:
        for _ in range(64):
            step(number)
            number += 1
    return number / taken


async def _calls(task: Task, queries: list[str], budget_s: float) -> float:
    """Return queries per CPU-second in one open episode; the sandbox's processor time counts."""
    environment = make(task.environment)
    try:
        await environment.reset(task.public(), seed=0)
        tool = "query" if "query" in environment.tools else "execute"
        calls = [Call(tool, {"sql": sql}) for sql in queries]
        for call in calls[:8]:
            await environment.call(call)
        spent, started, number = (await environment.sandboxes.usage()).cpu_s, time.process_time(), 0
        while time.process_time() - started < budget_s and number < 200_000:
            for call in calls:
                result = await environment.call(call)
                number += 1
                if not result.ok:
                    raise RuntimeError(f"{task.environment} refused {call.arguments}: {result.content}")
        taken = time.process_time() - started + (await environment.sandboxes.usage()).cpu_s - spent
        return number / taken
    finally:
        await environment.close()


async def _episodes(task: Task, queries: list[str], budget_s: float) -> float:
    """Return steps per CPU-second of episodes from reset to close: eight queries and the final call."""
    spent, started, number = 0.0, time.process_time() + _children_s(), 0
    while (taken := time.process_time() + _children_s() - started + spent) < budget_s or number == 0:
        environment = make(task.environment)
        try:
            await environment.reset(task.public(), seed=0)
            tool = "query" if "query" in environment.tools else "execute"
            for index in range(CALLS):
                await environment.call(Call(tool, {"sql": queries[(number + index) % len(queries)]}))
            final = "submit" if "submit" in environment.tools else "finish"
            await environment.call(Call(final, {"sql": queries[0]} if final == "submit" else {}))
            spent += (await environment.sandboxes.usage()).cpu_s
        finally:
            await environment.close()
        number += CALLS + 1
    return number / taken


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
