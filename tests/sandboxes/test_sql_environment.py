"""`agentgym/sql-v1`: what a model reads, and that hostile SQL reaches nothing but its own copy of the database."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

import agentgym
from agentgym import Call, Task
from agentgym.errors import SandboxError, TaskError
from agentgym.messages import ResultStatus

pytestmark = pytest.mark.needs_namespaces

STORE = Task("t", "agentgym/sql-v1", "What is the phone number of Mira Holt?", parameters={"database": "sql/store"})


@pytest.fixture
async def environment():
    environment = agentgym.make("agentgym/sql-v1")
    await environment.reset(STORE, seed=0)
    yield environment
    await environment.close()


async def ask(environment, sql):
    return await environment.call(Call("query", {"sql": sql}))


async def text_of(environment, name, **arguments):
    result = await environment.call(Call(name, arguments))
    assert result.ok, result.content
    return result.content


async def test_the_opening_is_one_short_system_line_and_the_question():
    environment = agentgym.make("agentgym/sql-v1")
    try:
        system, user = await environment.reset(STORE, seed=0)
    finally:
        await environment.close()
    assert (system.role, user.role) == ("system", "user")
    assert user.text == STORE.prompt
    assert len(system.text) < 60


async def test_the_schema_is_shown_where_the_task_asks_for_it():
    environment = agentgym.make("agentgym/sql-v1")
    task = Task("t", "agentgym/sql-v1", "Q?", parameters={"database": "sql/store", "show_schema": True})
    try:
        system, _ = await environment.reset(task, seed=0)
    finally:
        await environment.close()
    assert "orders(id, code, customer_id, employee_id, placed)" in system.text.splitlines()


@pytest.mark.parametrize("name", ["agentgym/sql-query-v1", "agentgym/sql-inprocess-v1"])
async def test_the_statements_are_shown_in_place_of_the_tools_that_look_tables_up(name, tmp_path):
    file = tmp_path / "pets.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            "CREATE TABLE pet (\n  id INTEGER PRIMARY KEY,\n owner INTEGER REFERENCES person(id));"
            "CREATE TABLE person (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE);"
            "CREATE VIEW names AS SELECT name FROM person"
        )
    environment = agentgym.make(name)
    task = Task("t", name, "Q?", parameters={"database": str(file), "show_schema": "statements"})
    try:
        system, _ = await environment.reset(task, seed=0)
        assert set(environment.tools) == {"query", "submit"}
        assert (await environment.call(Call("query", {"sql": "SELECT count(*) FROM pet"}))).content == "0"
    finally:
        await environment.close()
    assert system.text.splitlines()[1:] == [
        "CREATE VIEW names AS SELECT name FROM person;",
        "CREATE TABLE person (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE);",
        "CREATE TABLE pet ( id INTEGER PRIMARY KEY, owner INTEGER REFERENCES person(id));",
    ]


@pytest.mark.parametrize("value", ["statement", 1, []])
async def test_a_wrong_way_to_show_the_schema_is_refused(value):
    environment = agentgym.make("agentgym/sql-inprocess-v1")
    parameters = {"database": "sql/store", "show_schema": value}
    with pytest.raises(TaskError, match=r'show_schema.*"statements" for the statements'):
        await environment.reset(Task("t", "agentgym/sql-inprocess-v1", "Q?", parameters=parameters), seed=0)
    await environment.close()


async def test_tables_and_columns_are_told_in_one_line_each(environment):
    assert (await text_of(environment, "tables")).startswith("categories, customers, employees, order_lines, orders")
    assert await text_of(environment, "describe", table="ORDERS") == (
        "id INTEGER, code TEXT, customer_id INTEGER -> customers.id, employee_id INTEGER -> employees.id, placed TEXT"
    )


async def test_rows_are_lines_and_values_are_separated_by_bars(environment):
    rows = await text_of(environment, "query", sql="SELECT 1, 'a b', NULL, 2.5 UNION ALL SELECT 2, 'c\nd', x'00', 1e9")
    assert rows == "1 | a b | NULL | 2.5\n2 | c d | [1 bytes] | 1000000000.0"
    assert await text_of(environment, "query", sql="SELECT 1 WHERE 0") == "[no rows]"


async def test_long_results_are_cut_and_say_so(environment):
    lines = (await text_of(environment, "query", sql="SELECT id FROM customers")).split("\n")
    assert len(lines) == 21
    assert lines[-1] == "[cut: only 20 rows are shown]"
    wide = await text_of(environment, "query", sql="SELECT group_concat(email) FROM customers")
    assert len(wide) < 2_100
    assert wide.endswith("[cut]")


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT fone FROM customers", "no such column: fone. Columns of customers: id, name, phone, email, city."),
        ("SELECT * FROM people", "no such table: people. Tables: categories, customers,"),
        ("SELEC 1", 'near "SELEC": syntax error'),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("", "write one SELECT statement"),
        ("-- nothing", "write one SELECT statement"),
        ("SELECT 'a\0b'", "null character"),
        ("SELECT " + "(" * 3000, "SQLite"),
        ("SELECT " + "x" * 30_000, "big"),
    ],
)
async def test_a_broken_query_is_answered_with_what_helps_to_mend_it(environment, sql, hint):
    result = await ask(environment, sql)
    assert result.status is ResultStatus.TOOL_ERROR
    assert hint in result.content
    assert len(result.content) < 400
    assert await text_of(environment, "query", sql="SELECT 7") == "7"


async def test_an_unknown_table_is_answered_with_those_there_are(environment):
    result = await environment.call(Call("describe", {"table": "peple"}))
    assert result.status is ResultStatus.TOOL_ERROR
    assert result.content.startswith("There is no table 'peple'. Tables: categories, customers")


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM customers",
        "UPDATE customers SET phone = '1'",
        "INSERT INTO customers (name) VALUES ('x')",
        "DROP TABLE customers",
        "CREATE TABLE x (a)",
        "CREATE TEMP TABLE x (a)",
        "ATTACH DATABASE '/etc/passwd' AS p",
        "ATTACH DATABASE '/work/new.sqlite' AS p",
        "VACUUM INTO '/work/copy.sqlite'",
        "PRAGMA query_only = 0",
        "PRAGMA writable_schema = 1",
        "PRAGMA hard_heap_limit = 0",
        "PRAGMA database_list",
        "SELECT * FROM pragma_database_list",
        "SELECT load_extension('/lib/x.so')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT random()",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('/work/x', 'y')",
        "BEGIN",
        "REINDEX",
        "ANALYZE",
    ],
)
async def test_nothing_but_reading_is_allowed(environment, sql):
    result = await ask(environment, sql)
    assert result.status is ResultStatus.TOOL_ERROR
    assert await environment.sandboxes[0].list() == ["database.sqlite"]
    assert await text_of(environment, "query", sql="SELECT count(*) FROM customers") == "1200"


@pytest.mark.parametrize(
    "sql",
    [
        "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t",
        "SELECT count(*) FROM order_lines a, order_lines b, order_lines c",
        "SELECT zeroblob(2000000000)",
        "SELECT replace(hex(zeroblob(40000)), '0', hex(zeroblob(40000)))",
        "WITH RECURSIVE t(x, n) AS (SELECT hex(zeroblob(40000)), 1 UNION ALL SELECT x || n, n + 1 FROM t LIMIT 999999) "
        "SELECT x FROM t ORDER BY n DESC",
    ],
)
async def test_a_query_that_eats_time_or_memory_is_stopped_and_the_next_one_works(environment, sql):
    result = await ask(environment, sql)
    assert result.status is ResultStatus.TOOL_ERROR
    assert "Ask for less" in result.content
    assert await text_of(environment, "query", sql="SELECT 7") == "7"


async def test_parallel_queries_each_get_their_own_answer(environment):
    results = await asyncio.gather(*(ask(environment, f"SELECT {n}") for n in range(8)))
    assert [result.content for result in results] == [str(n) for n in range(8)]


async def test_a_call_that_is_cancelled_half_way_does_not_break_the_next(environment):
    slow = asyncio.create_task(ask(environment, "SELECT count(*) FROM order_lines a, order_lines b, order_lines c"))
    await asyncio.sleep(0.2)
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert await text_of(environment, "query", sql="SELECT 7") == "7"


async def test_the_answer_ends_the_episode(environment):
    result = await environment.call(Call("answer", {"text": "412-7306"}))
    assert result.final
    assert result.ok


async def test_the_state_is_the_set_of_results_seen(environment):
    start = await environment.state_key()
    await ask(environment, "SELECT 1")
    after = await environment.state_key()
    await ask(environment, "SELECT 2 - 1")  # another way to the same knowledge
    await ask(environment, "SELECT nothing")  # an error teaches nothing about the database
    assert start != after == await environment.state_key()


async def test_a_restored_checkpoint_continues_with_the_same_state(environment):
    await ask(environment, "SELECT phone FROM customers LIMIT 1")
    checkpoint = await environment.checkpoint()
    twin = agentgym.make("agentgym/sql-v1")
    try:
        await twin.restore(STORE, checkpoint, seed=0)
        assert await twin.state_key() == await environment.state_key()
        sql = "SELECT email FROM customers ORDER BY id LIMIT 3"
        assert (await ask(twin, sql)).content == (await ask(environment, sql)).content
    finally:
        await twin.close()


async def test_a_second_reset_forgets_the_first(environment):
    fresh = await environment.state_key()
    await ask(environment, "SELECT 1")
    await environment.reset(STORE, seed=0)
    assert await environment.state_key() == fresh
    assert await text_of(environment, "query", sql="SELECT 7") == "7"


async def test_any_sqlite_file_can_be_asked(tmp_path):
    path = tmp_path / 'odd "name".sqlite'
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE "odd ""table"" name" (a, "b c" TEXT)')
        connection.execute('INSERT INTO "odd ""table"" name" VALUES (1, \'x\')')
    connection.close()
    environment = agentgym.make("agentgym/sql-v1")
    try:
        await environment.reset(Task("t", "agentgym/sql-v1", "Q?", parameters={"database": str(path)}), seed=0)
        assert await text_of(environment, "tables") == 'odd "table" name'
        assert await text_of(environment, "describe", table='odd "table" name') == "a, b c TEXT"
        assert await text_of(environment, "query", sql='SELECT * FROM "odd ""table"" name"') == "1 | x"
    finally:
        await environment.close()


@pytest.mark.parametrize(
    ("database", "complaint"),
    [
        (None, "parameters\\['database'\\] must be .* not None"),
        ("sql/stor", "neither a file nor an asset.*Did you mean 'sql/store'"),
        (__file__, "is not an SQLite 3 database: it begins with"),
    ],
)
async def test_a_task_without_a_usable_database_is_refused_by_name(database, complaint):
    environment = agentgym.make("agentgym/sql-v1")
    with pytest.raises(TaskError, match=f"t: .*{complaint}"):
        await environment.reset(Task("t", "agentgym/sql-v1", "Q?", parameters={"database": database}), seed=0)
    await environment.close()


async def test_a_tool_before_reset_is_our_mistake_not_the_agents():
    environment = agentgym.make("agentgym/sql-v1")
    with pytest.raises(SandboxError, match="before reset"):
        await ask(environment, "SELECT 1")
