"""DuckDB and PostgreSQL in a sandbox, and SQLite in this process: the same facts, and hostile SQL contained."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

import agentgym
from agentgym import Call, Task
from agentgym.errors import MissingExtraError, SandboxUnavailable
from agentgym.messages import ResultStatus
from agentgym.registry import load
from agentgym.sandboxes.sql.guest_source import source_tables

DUCKDB, POSTGRES, IN_PROCESS = "agentgym/sql-duckdb-v1", "agentgym/sql-postgres-v1", "agentgym/sql-inprocess-v1"
PARAMETERS = {"database": "sql/schemas", "seed": 0, "show_schema": True}


def reason(name):
    return load("environments", name).unavailable_reason()


needs_duckdb = pytest.mark.skipif(bool(reason(DUCKDB)), reason=reason(DUCKDB))
needs_postgres = pytest.mark.skipif(bool(reason(POSTGRES)), reason=reason(POSTGRES))


async def opened(name, **parameters):
    environment = agentgym.make(name)
    await environment.reset(Task("t", name, "Q?", parameters={**PARAMETERS, **parameters}), seed=0)
    return environment


@pytest.fixture
async def duck():
    environment = await opened(DUCKDB)
    yield environment
    await environment.close()


@pytest.fixture
async def postgres():
    environment = await opened(POSTGRES)
    yield environment
    await environment.close()


@pytest.fixture
async def in_process():
    environment = await opened(IN_PROCESS)
    yield environment
    await environment.close()


async def ask(environment, sql):
    tool = "query" if "query" in environment.tools else "execute"
    return await environment.call(Call(tool, {"sql": sql}))


async def text(environment, sql):
    result = await ask(environment, sql)
    assert result.ok, result.content
    return result.content


def facts():
    """What the database holds, read by SQLite."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(load("assets", "sql/schemas")(seed=0))
        return connection.execute("SELECT id, title, genre, pages, price FROM books ORDER BY id").fetchall()


@needs_duckdb
@pytest.mark.needs_namespaces
class TestDuckDb:
    async def test_it_holds_what_the_sqlite_file_holds(self, duck):
        answer = await duck.rows("SELECT id, title, genre, pages, price FROM books ORDER BY id")
        assert [tuple(row) for row in answer["rows"]] == facts()
        assert (await duck.call(Call("describe", {"table": "BOOKS"}))).content == (
            "id BIGINT, publisher_id BIGINT -> publishers.id, title VARCHAR, genre VARCHAR, pages BIGINT, price DOUBLE"
        )

    async def test_values_that_a_file_of_text_might_garble_arrive_whole(self):
        rows = [[None, ""], [1, "a,b\n\"c\" 'd'"], [2, "\\N "], [3, "ünï"]]
        tables = [
            {"name": "odd one", "columns": [["n", "INTEGER"], ["t", "TEXT"]], "rows": rows},
            {"name": "raw", "columns": [["b", "BLOB"]], "rows": []},
        ]
        environment = await opened(DUCKDB, tables=tables)
        try:
            assert (await environment.rows('SELECT n, t FROM "odd one" ORDER BY n NULLS FIRST'))["rows"] == rows
        finally:
            await environment.close()

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT * FROM read_csv('/etc/passwd')",
            "SELECT * FROM '/etc/passwd'",
            "FROM read_text('/etc/passwd')",
            "SELECT * FROM glob('/*')",
            "ATTACH 'x.db'",
            "COPY books TO '/tmp/x'",
            "EXPORT DATABASE '/tmp/x'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET threads = 8",
            "PRAGMA memory_limit = '9GB'",
            "SET enable_external_access = true",
            "CREATE TABLE x (a INT)",
            "DELETE FROM books",
            "CREATE MACRO m() AS 1",
            "SELECT 1; DROP TABLE books",
            "CREATE SECRET s (TYPE s3)",
            "PREPARE p AS SELECT 1",
            "CALL pragma_version()",
            "",
            "SELEC 1",
            "SELECT a FROM nope",
        ],
    )
    async def test_nothing_but_reading_the_tables_is_allowed(self, duck, sql):
        result = await ask(duck, sql)
        assert result.status is ResultStatus.TOOL_ERROR
        assert "root:" not in result.content
        assert await duck.sandboxes[0].list() == ["database.sqlite"]
        assert await text(duck, "SELECT COUNT(*) FROM books") == "70"

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT range(1000000000)",
            "SELECT repeat('x', 1000000000)",
            "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT COUNT(*) FROM t",
            "SELECT COUNT(*) FROM range(10000000000) a WHERE hash(range) = 1",
        ],
    )
    async def test_a_query_that_eats_time_or_memory_is_stopped_and_the_next_one_works(self, duck, sql):
        assert "Ask for less" in (await ask(duck, sql)).content
        assert await text(duck, "SELECT 7") == "7"

    async def test_a_long_query_draws_no_progress_into_its_reply(self, duck):
        """Of a session DuckDB thinks that somebody watches."""
        assert await text(duck, "SELECT current_setting('enable_progress_bar')") == "0"

    async def test_chance_is_the_same_in_every_episode(self, duck):
        other = await opened(DUCKDB)
        try:
            assert await text(duck, "SELECT random()") == await text(other, "SELECT random()")
        finally:
            await other.close()


@needs_postgres
@pytest.mark.needs_namespaces
class TestPostgres:
    async def test_it_holds_what_the_sqlite_file_holds(self, postgres):
        answer = await postgres.rows("SELECT id, title, genre, pages, price FROM books ORDER BY id")
        assert [tuple(row) for row in answer["rows"]] == facts()
        assert (await postgres.call(Call("describe", {"table": "Books"}))).content == (
            "id bigint, publisher_id bigint -> publishers.id, title text, genre text, pages bigint, "
            "price double precision"
        )
        assert (await postgres.call(Call("tables", {}))).content == "books, loans, publishers"

    async def test_transactions_are_those_of_the_server(self, postgres):
        start = await postgres.state_key()
        assert await text(postgres, "BEGIN") == "Done. BEGIN."
        assert await text(postgres, "DELETE FROM loans") == "Done. DELETE 160."
        assert (
            "does not exist. Tables: books, loans, publishers." in (await ask(postgres, "SELECT * FROM nope")).content
        )
        assert "aborted" in (await ask(postgres, "SELECT 1")).content
        assert await text(postgres, "COMMIT") == "Done. ROLLBACK."
        assert await text(postgres, "SELECT COUNT(*) FROM loans") == "160"
        assert (await ask(postgres, "DELETE FROM publishers")).status is ResultStatus.TOOL_ERROR  # books refer to them
        checkpoint = await postgres.checkpoint()
        assert checkpoint.data["committed"] == []
        await text(postgres, "UPDATE books SET price = 1 WHERE id = 1")
        assert len({start, await postgres.state_key()}) == 2

    async def test_a_failed_transaction_is_restored_as_one(self, postgres):
        await text(postgres, "BEGIN")
        await text(postgres, "DELETE FROM loans WHERE id = 1")
        await ask(postgres, "SELECT * FROM nope")
        twin = agentgym.make(POSTGRES)
        try:
            task = Task("t", POSTGRES, "Q?", parameters=PARAMETERS)
            await twin.restore(task, await postgres.checkpoint(), seed=0)
            assert await twin.state_key() == await postgres.state_key()
            for sql in ("SELECT 1", "COMMIT", "SELECT COUNT(*) FROM loans"):
                assert (await ask(twin, sql)).content == (await ask(postgres, sql)).content
        finally:
            await twin.close()

    @pytest.mark.parametrize(
        "sql",
        [
            "COPY (SELECT 1) TO PROGRAM 'id'",
            "COPY books FROM PROGRAM 'cat /etc/passwd'",
            "COPY books TO '/tmp/x'",
            "SELECT pg_read_file('/etc/passwd')",
            "SELECT pg_ls_dir('/')",
            "SELECT lo_import('/etc/passwd')",
            "CREATE EXTENSION adminpack",
            "CREATE EXTENSION dblink",
            "SET ROLE postgres",
            "ALTER ROLE agent SUPERUSER",
            "ALTER SYSTEM SET fsync = on",
            "CREATE FUNCTION f() RETURNS int LANGUAGE c AS '/lib/x', 'f'",
            "DROP DATABASE world",
            "SELECT 1; SELECT 2",
            "CREATE ROLE other SUPERUSER",
            "SELECT pg_reload_conf()",
            "SET session_authorization = postgres",
            "COPY books FROM STDIN",
            "UPDATE pg_class SET relname = 'x'",
        ],
    )
    async def test_hostile_statements_are_refused_by_the_server(self, postgres, sql):
        result = await ask(postgres, sql)
        assert result.status is ResultStatus.TOOL_ERROR
        assert "root:" not in result.content
        assert await text(postgres, "SELECT COUNT(*) FROM books") == "70"

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT repeat('x', 1000000000)",
            "SELECT pg_terminate_backend(pg_backend_pid())",
            "SELECT COUNT(*) FROM loans a, loans b, loans c, loans d, loans e",
        ],
    )
    async def test_a_statement_that_eats_time_or_memory_is_stopped_and_the_next_one_works(self, postgres, sql):
        await text(postgres, "SET statement_timeout = 0")
        assert "Ask for less" in (await ask(postgres, sql)).content
        assert await text(postgres, "SELECT 7") == "7"
        servers = await postgres.sandboxes[-1].exec(  # the first may be that in which the cluster was prepared
            ["sh", "-c", "grep -l no_sysv /proc/[0-9]*/maps | wc -l; ls cluster/*.pid"]
        )
        assert servers.text.endswith("cluster/postmaster.pid\n")
        assert int(servers.text.split()[0]) <= 8  # one server and its helpers, not two

    async def test_an_environment_is_forked_anew_for_another_task(self, postgres):
        await text(postgres, "DELETE FROM loans")
        for seed, count in ((0, "160"), (10, None)):
            parameters = {**PARAMETERS, "seed": seed}
            await postgres.reset(Task("t", POSTGRES, "Q?", parameters=parameters), seed=0)
            listed = (await postgres.call(Call("tables", {}))).content
            assert listed == ("books, loans, publishers" if count else "courses, departments, enrolments")
            if count:
                assert await text(postgres, "SELECT COUNT(*) FROM loans") == count


class TestInProcess:
    async def test_it_answers_as_the_sandboxed_one_does(self, in_process):
        assert await text(in_process, "SELECT COUNT(*), 'a' FROM books") == "70 | a"
        assert (await in_process.rows("SELECT id, title, genre, pages, price FROM books ORDER BY id"))["steps"] >= 0
        assert (await in_process.rows("SELECT id FROM books ORDER BY id"))["rows"][0] == [1]

    @pytest.mark.parametrize(
        "sql",
        [
            "DELETE FROM books",
            "ATTACH DATABASE '/tmp/x' AS x",
            "PRAGMA query_only = 0",
            "PRAGMA hard_heap_limit = 1",
            "SELECT load_extension('/lib/x.so')",
            "VACUUM INTO '/tmp/x'",
            "CREATE TEMP TABLE x (a)",
            "SELECT random()",
            "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT COUNT(*) FROM t",
            "SELECT zeroblob(2000000000)",
        ],
    )
    async def test_the_guard_is_that_of_the_sandbox(self, in_process, sql):
        assert (await ask(in_process, sql)).status is ResultStatus.TOOL_ERROR
        assert await text(in_process, "SELECT COUNT(*) FROM books") == "70"

    async def test_it_leaves_the_settings_of_other_connections_alone(self, in_process):
        """A limit on SQLite's heap would hold for the ledger of the run too."""
        with closing(sqlite3.connect(":memory:")) as other:
            assert other.execute("PRAGMA hard_heap_limit").fetchone() == (0,)


@pytest.mark.parametrize(
    "name",
    [
        "agentgym/sql-v1",
        pytest.param(DUCKDB, marks=needs_duckdb),
        pytest.param(POSTGRES, marks=needs_postgres),
        IN_PROCESS,
    ],
)
async def test_a_row_of_an_empty_text_is_told_from_no_rows(name):
    environment = await opened(name)
    try:
        assert await text(environment, "SELECT ''") == "''"
        assert await text(environment, "SELECT '', 1") == " | 1"
        assert await text(environment, "SELECT 1 WHERE 1 = 2") == "[no rows]"
    finally:
        await environment.close()


@pytest.mark.parametrize(
    "name", [pytest.param(DUCKDB, marks=needs_duckdb), pytest.param(POSTGRES, marks=needs_postgres)]
)
async def test_a_whole_number_of_any_size_keeps_its_digits(name):
    environment = await opened(name)
    try:
        assert await text(environment, "SELECT sum(n) FROM (SELECT 9007199254740993 AS n) x") == "9007199254740993"
        assert await text(environment, "SELECT CAST(1.5 AS NUMERIC(10, 2))") == "1.5"
    finally:
        await environment.close()


async def test_what_is_missing_is_said_with_how_to_get_it(monkeypatch):
    from agentgym.sandboxes.sql import duck, postgres

    monkeypatch.setattr(duck, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[sql\]"):
        await opened(DUCKDB)
    monkeypatch.setattr(postgres, "server_programs", lambda: "")
    with pytest.raises(SandboxUnavailable, match="apt-get install postgresql"):
        await opened(POSTGRES)


def test_a_foreign_key_that_names_no_column_refers_to_the_primary_key(tmp_path):
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE shop (code TEXT PRIMARY KEY, id INTEGER)")
        connection.execute(
            "CREATE TABLE sale (number INTEGER, shop TEXT REFERENCES shop, buyer INTEGER REFERENCES log)"
        )
        connection.execute("CREATE TABLE log (id INTEGER)")  # without a primary key, so nothing can refer to it
        connection.commit()
    with source_tables(str(file)) as tables:
        links = {table.name: table.links for table in tables}
    assert links == {"shop": [], "log": [], "sale": [("shop", "shop", "code")]}
