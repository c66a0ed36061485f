"""`agentgym/sql-write-v1`: transactions, the final state, and hostile statements that reach nothing else."""

from __future__ import annotations

import asyncio

import pytest

import agentgym
from agentgym import Call, Task
from agentgym.errors import TaskError
from agentgym.messages import ResultStatus

pytestmark = pytest.mark.needs_namespaces

TABLES = [
    {
        "name": "accounts",
        "columns": [["id", "INTEGER"], ["owner", "TEXT"], ["balance", "REAL"]],
        "rows": [[1, "Ada", 10.5], [2, "Ben", 20.0], [3, "Cleo", None]],
    },
    {"name": 'odd "name"', "columns": [["a b", "TEXT"]], "rows": [["x"]]},
]
BANK = Task("t", "agentgym/sql-write-v1", "Change it.", parameters={"tables": TABLES})


@pytest.fixture
async def environment():
    environment = agentgym.make("agentgym/sql-write-v1")
    await environment.reset(BANK, seed=0)
    yield environment
    await environment.close()


async def run(environment, *statements):
    """The result of the last statement."""
    result = None
    for sql in statements:
        result = await environment.call(Call("execute", {"sql": sql}))
    return result


async def text(environment, *statements):
    result = await run(environment, *statements)
    assert result.ok, result.content
    return result.content


async def final_state(*statements):
    environment = agentgym.make("agentgym/sql-write-v1")
    try:
        await environment.reset(BANK, seed=0)
        await run(environment, *statements)
        result = await environment.call(Call("finish", {}))
        assert result.final
        return result.content
    finally:
        await environment.close()


async def test_reading_and_writing_each_tell_what_happened(environment):
    assert (
        await text(environment, "SELECT owner, balance FROM accounts ORDER BY id")
        == "Ada | 10.5\nBen | 20.0\nCleo | NULL"
    )
    assert await text(environment, "UPDATE accounts SET balance = 0 WHERE id < 3") == "Done. 2 rows changed."
    assert await text(environment, "CREATE TABLE notes (id INTEGER PRIMARY KEY, said TEXT)") == "Done."
    assert await text(environment, "INSERT INTO notes (said) VALUES ('a') RETURNING id") == "1"
    assert (await environment.call(Call("tables", {}))).content == 'accounts, notes, odd "name"'
    assert "execute" in environment.tools


async def test_a_rolled_back_transaction_leaves_no_trace(environment):
    before = await environment.state_key()
    await text(environment, "BEGIN", "DELETE FROM accounts", 'DROP TABLE "odd ""name"""')
    inside = await environment.state_key()
    assert await text(environment, "ROLLBACK") == "Done."
    assert inside != before
    assert await text(environment, "SELECT COUNT(*) FROM accounts") == "3"
    assert (await environment.call(Call("tables", {}))).content == 'accounts, odd "name"'


async def test_what_is_not_committed_at_the_end_is_lost():
    change = "UPDATE accounts SET balance = 1 WHERE id = 1"
    untouched, committed = await final_state(), await final_state("BEGIN", change, "COMMIT")
    assert await final_state("BEGIN", change) == untouched
    assert await final_state(change) == committed != untouched
    assert (
        await final_state("BEGIN", change, "SAVEPOINT s", "DELETE FROM accounts", "ROLLBACK TO s", "COMMIT")
        == committed
    )


async def test_the_state_is_what_the_tables_hold_however_it_came_about():
    """Order of rows, digits beyond the ninth and the way there do not count; a cell does."""
    untouched = await final_state()
    away_and_back = ("DELETE FROM accounts WHERE id = 1", "INSERT INTO accounts VALUES (1, 'Ada', 10.5)")
    assert await final_state(*away_and_back) == untouched
    assert await final_state("UPDATE accounts SET balance = balance + 1e-12 WHERE id = 1") == untouched
    assert await final_state("UPDATE accounts SET balance = '10.5' WHERE id = 1") == untouched  # the column is REAL
    others = [
        "UPDATE accounts SET balance = 10.6 WHERE id = 1",
        "UPDATE accounts SET owner = 'ada' WHERE id = 1",
        "DELETE FROM accounts WHERE id = 3",
        "INSERT INTO accounts VALUES (3, 'Cleo', NULL)",
        "ALTER TABLE accounts RENAME COLUMN owner TO name",
        "CREATE TABLE more (a)",
        "DROP TABLE accounts",
        "UPDATE accounts SET balance = 0 WHERE id = 3",
    ]
    states = [await final_state(other) for other in others]
    assert len({untouched, *states}) == len(others) + 1


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH DATABASE '/etc/passwd' AS p",
        "ATTACH DATABASE '/work/new.sqlite' AS p",
        "VACUUM INTO '/work/copy.sqlite'",
        "PRAGMA writable_schema = 1",
        "PRAGMA journal_mode = OFF",
        "PRAGMA max_page_count = 1000000000",
        "PRAGMA hard_heap_limit = 0",
        "PRAGMA query_only = 1",
        "SELECT load_extension('/lib/x.so')",
        "SELECT writefile('/work/x', 'y')",
        "SELECT random()",
        "UPDATE sqlite_master SET sql = 'x'",
        "DELETE FROM sqlite_schema",
        "UPDATE sqlite_temp_master SET sql = 'x'",
        "CREATE TEMP TABLE x (a)",
        "CREATE VIRTUAL TABLE x USING fts5(a)",
        "CREATE TRIGGER boom AFTER INSERT ON accounts BEGIN DELETE FROM accounts; END",
        "DETACH DATABASE main",
        "SELECT 1; DELETE FROM accounts",
        "",
        "\0",
    ],
)
async def test_hostile_statements_are_refused_and_change_nothing(environment, sql):
    before = await environment.state_key()
    result = await run(environment, sql)
    assert result.status is ResultStatus.TOOL_ERROR or (not sql and result.content == "Done.")
    assert await environment.state_key() == before or not sql
    assert await environment.sandboxes[0].list() == ["database.sqlite"]
    assert await text(environment, "SELECT COUNT(*) FROM accounts") == "3"


@pytest.mark.parametrize(
    "sql",
    [
        "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT COUNT(*) FROM t",
        "CREATE TABLE big AS WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t LIMIT 9999999) "
        "SELECT x, hex(zeroblob(1000)) FROM t",
        "UPDATE accounts SET owner = replace(hex(zeroblob(40000)), '0', hex(zeroblob(40000)))",
    ],
)
async def test_a_statement_that_eats_time_memory_or_disk_is_undone(environment, sql):
    await text(environment, "UPDATE accounts SET balance = 7 WHERE id = 1")
    result = await run(environment, sql)
    assert result.status is ResultStatus.TOOL_ERROR
    assert "Ask for less" in result.content
    assert await text(environment, "SELECT balance FROM accounts WHERE id = 1") == "7.0"


async def test_the_clock_stands_still_so_that_episodes_can_be_replayed(environment):
    assert await text(environment, "SELECT date('now'), datetime(), strftime('%Y', 'now'), CURRENT_DATE") == (
        "2026-01-01 | 2026-01-01 12:00:00 | 2026 | 2026-01-01"
    )
    assert await text(environment, "SELECT date('2024-02-28', '+1 day'), julianday('now') > 0") == "2024-02-29 | 1"
    await text(environment, "CREATE TABLE log (id INTEGER PRIMARY KEY, at TEXT DEFAULT CURRENT_TIMESTAMP)")
    assert await text(environment, "INSERT INTO log (id) VALUES (1) RETURNING at") == "2026-01-01 12:00:00"


async def test_a_checkpoint_in_the_middle_of_a_transaction_goes_on_as_the_original(environment):
    await text(environment, "INSERT INTO accounts VALUES (4, 'Dora', 1)", "BEGIN", "DELETE FROM accounts WHERE id = 1")
    checkpoint = await environment.checkpoint()
    twin = agentgym.make("agentgym/sql-write-v1")
    try:
        await twin.restore(BANK, checkpoint, seed=0)
        assert await twin.state_key() == await environment.state_key()
        for sql in ("SELECT COUNT(*) FROM accounts", "ROLLBACK", "SELECT COUNT(*) FROM accounts"):
            assert await text(twin, sql) == await text(environment, sql)
        assert await twin.state_key() == await environment.state_key()
    finally:
        await twin.close()


async def test_parallel_statements_all_count(environment):
    calls = [run(environment, f"INSERT INTO accounts VALUES ({n}, 'x', {n})") for n in range(10, 18)]
    assert {result.content for result in await asyncio.gather(*calls)} == {"Done. 1 rows changed."}
    assert await text(environment, "SELECT COUNT(*) FROM accounts") == "11"


@pytest.mark.parametrize(
    "tables",
    [
        "x",
        [{"name": "t"}],
        [{"name": "t", "columns": [["a", "TEXT; DROP"]], "rows": []}],
        [{"name": "t", "columns": [["a", "TEXT"]], "rows": [[1, 2]]}],
    ],
)
async def test_tables_that_are_none_are_refused_by_name(tables):
    environment = agentgym.make("agentgym/sql-write-v1")
    with pytest.raises(TaskError, match=r"t: parameters\['tables'\]"):
        await environment.reset(Task("t", "agentgym/sql-write-v1", "Q?", parameters={"tables": tables}), seed=0)
    await environment.close()


async def test_a_statement_that_is_cancelled_leaves_an_environment_that_says_it_is_unsure(environment):
    await text(environment, "BEGIN", "DELETE FROM accounts")
    slow = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT COUNT(*) FROM t"
    running = asyncio.create_task(run(environment, slow))
    await asyncio.sleep(0.2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await environment.checkpoint() is None
    assert await text(environment, "SELECT COUNT(*) FROM accounts") == "3"  # its transaction is gone
    await text(environment, "DELETE FROM accounts WHERE id = 1")
    assert await text(environment, "SELECT COUNT(*) FROM accounts") == "2"
