"""Databases as large and wide as those of public sets: over 32 MiB, over 100 columns; options for the limits."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib.util import find_spec

import pytest

import agentgym
from agentgym import Call, JudgeError, SandboxSpec, Task
from agentgym.errors import TaskError
from agentgym.rewards.sql_execution import SqlExecution
from agentgym.sandboxes.sql.limits import SqlLimits

pytestmark = pytest.mark.needs_namespaces
WIDE = [f"c{number}" for number in range(116)]
ENVIRONMENTS = ["sql-query-v1", "sql-inprocess-v1", "sql-write-v1"]
ENVIRONMENTS += ["sql-duckdb-v1"] if find_spec("duckdb") else []


@pytest.fixture
def wide(tmp_path):
    with closing(sqlite3.connect(tmp_path / "wide.sqlite")) as connection:
        connection.execute(f"CREATE TABLE m ({', '.join(WIDE)})")
        connection.execute(f"INSERT INTO m VALUES ({', '.join('?' * len(WIDE))})", range(len(WIDE)))
        connection.commit()
    return str(tmp_path / "wide.sqlite")


def task_on(database, name):
    return Task("t", f"agentgym/{name}", "Q?", parameters={"database": database}, truth={"sql": "SELECT * FROM m"})


@pytest.mark.parametrize("name", ENVIRONMENTS)
async def test_a_table_of_more_than_100_columns_is_read(wide, name):
    environment = agentgym.make(f"agentgym/{name}")
    try:
        await environment.reset(task_on(wide, name).public(), seed=0)
        tool = "execute" if "execute" in environment.tools else "query"
        assert (await environment.call(Call(tool, {"sql": "SELECT * FROM m"}))).content.endswith("| 115")
    finally:
        await environment.close()


async def test_a_database_larger_than_the_sandbox_of_the_class_gets_a_larger_sandbox(tmp_path):
    """And a small one after it the usual sandbox: the judge resets one environment to several databases."""
    with closing(sqlite3.connect(tmp_path / "large.sqlite")) as connection:
        connection.execute("CREATE TABLE m (a)")
        connection.executemany("INSERT INTO m VALUES (zeroblob(1000000))", [()] * 36)
        connection.commit()
    environment = agentgym.make("agentgym/sql-query-v1")
    try:
        for database, count in ((str(tmp_path / "large.sqlite"), "36"), ("sql/store", None)):
            await environment.reset(task_on(database, "sql-query-v1").public(), seed=0)
            if count:
                assert (await environment.call(Call("query", {"sql": "SELECT count(*) FROM m"}))).content == count
        assert (await environment.call(Call("tables", {}))).content.startswith("categories")
    finally:
        await environment.close()


def test_a_small_database_has_the_spec_of_its_class_and_a_large_one_a_power_of_two_of_it():
    base, limits = SandboxSpec(memory_mib=256, disk_mib=32), SqlLimits()
    assert limits.spec(base, 2**20, disk_per_byte=1, memory_per_byte=1) == base
    large = limits.spec(base, 400 * 2**20, disk_per_byte=1, memory_per_byte=1)
    assert (large.disk_mib, large.memory_mib) == (512, 1024)
    assert SqlLimits(disk_mib=100).spec(base, 2**30, disk_per_byte=1, memory_per_byte=1).disk_mib == 100


async def test_the_limits_are_options_of_the_environment_and_of_its_judge(wide):
    with pytest.raises(TaskError, match="max_rows must be a number above 0, not 0"):
        agentgym.make("agentgym/sql-query-v1", max_rows=0)
    task = task_on(wide, "sql-inprocess-v1")
    environment = agentgym.make("agentgym/sql-inprocess-v1", max_columns=100, max_chars=9)
    try:
        await environment.reset(task.public(), seed=0)
        assert "too many columns" in (await environment.call(Call("query", {"sql": "SELECT * FROM m"}))).content
        query = {"sql": "SELECT c110, c111, c112 FROM m"}
        assert (await environment.call(Call("query", query))).content == "110 | 111 [cut]"
    finally:
        await environment.close()
    assert (await SqlExecution().judge(task, "SELECT * FROM m", "SELECT * FROM m")).matched == [True]
    with pytest.raises(JudgeError, match="too many columns"):
        await SqlExecution(environment_options={"max_columns": 100}).judge(task, "SELECT * FROM m", "SELECT 1")
