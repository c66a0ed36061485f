"""Importers of text-to-SQL sets and of DBBench: on the public files where they are, on small ones anywhere."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

import agentgym
from agentgym import Call, EpisodeManager, Message, ScriptedPolicy, Task, load_reward
from agentgym.errors import TaskError
from agentgym.registry import load

DATA = Path(__file__).parents[2] / "../shared/data"
IN_PROCESS = "agentgym/sql-inprocess-v1"


def needs(name):
    return pytest.mark.skipif(not (DATA / name).exists(), reason=f"{name} is not in ../shared/data")


async def gold_is_right(task):
    """The gold query, submitted, is judged right; where the set knows, so is not an empty result."""
    verdict = await load_reward("sql_execution").judge(task, task.truth["sql"], task.truth["sql"])
    return verdict.runs and all(verdict.matched)


@needs("spider_dev_10")
async def test_every_gold_query_of_spider_executes_and_is_right():
    tasks = load("importers", "spider")(DATA / "spider_dev_10", environment=IN_PROCESS, check_golds=False)["held_out"]
    assert len(tasks) == 627
    assert len({tag for task in tasks for tag in task.tags} - {"spider", "easy", "medium", "hard", "extra"}) == 10
    assert [task.id for task in tasks if not await gold_is_right(task)] == []
    judge = load_reward("sql_execution")
    wrong = [(await judge.judge(task, task.truth["sql"], "SELECT 1")).matched == [True] for task in tasks]
    assert sum(wrong) <= 20  # counts that are 1


def test_further_databases_of_a_spider_folder_are_its_test_suite(tmp_path):
    folder = tmp_path / "database" / "pets"
    folder.mkdir(parents=True)
    for name, count in (("pets", 2), ("pets_v1", 3)):
        with closing(sqlite3.connect(folder / f"{name}.sqlite")) as connection:
            connection.execute("CREATE TABLE pet (id)")
            connection.executemany("INSERT INTO pet VALUES (?)", [(n,) for n in range(count)])
            connection.commit()
    item = {"db_id": "pets", "question": "How many?", "query": "SELECT count(*) FROM pet"}
    (tmp_path / "dev.json").write_text(json.dumps([item, item]))
    (task,) = load("importers", "spider")(tmp_path)["held_out"]
    assert task.prompt == "How many?"
    assert [Path(parameters["database"]).name for parameters in task.truth["suite"]] == ["pets_v1.sqlite"]
    assert task.parameters["show_schema"] is True
    for schema, parameter in (("statements", "statements"), ("none", False)):
        (task,) = load("importers", "spider")(tmp_path, schema=schema)["held_out"]
        assert task.parameters["show_schema"] == parameter
    with pytest.raises(TaskError, match="schema = 'table' is not one of columns, statements, none"):
        load("importers", "spider")(tmp_path, schema="table")


def test_a_bird_folder_tells_its_evidence(tmp_path):
    folder = tmp_path / "dev_databases" / "shop"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "shop.sqlite")) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.commit()
    item = {
        "question_id": 4,
        "db_id": "shop",
        "question": "How many?",
        "evidence": "many means rows",
        "SQL": "SELECT 1",
        "difficulty": "challenging",
    }
    (tmp_path / "dev.json").write_text(json.dumps([item, {**item, "question_id": 5, "evidence": ""}]))
    first, second = load("importers", "bird")(tmp_path)["held_out"]
    assert (first.id, first.prompt, first.difficulty) == ("bird/4", "How many?\nWhat to know: many means rows", 3.0)
    assert second.prompt == "How many?"
    assert first.truth == {"sql": "SELECT 1"}


async def test_wikisql_questions_are_answered_by_the_query_their_numbers_stand_for(tmp_path):
    table = {
        "id": "1-1",
        "header": ["Player", "No.", "No."],
        "types": ["text", "real", "text"],
        "rows": [["Ada Lee", "1,042", "a"], ["Ben", "7", "b"], ["Cy", "n/a", None]],
    }
    items = [
        {
            "table_id": "1-1",
            "question": "Whose number is above 100?",
            "sql": {"sel": 0, "agg": 0, "conds": [[1, 1, 100]]},
        },
        {"table_id": "1-1", "question": "How many are Ben?", "sql": {"sel": 0, "agg": 3, "conds": [[0, 0, "BEN"]]}},
    ]
    (tmp_path / "dev.jsonl").write_text("\n".join(map(json.dumps, items)))
    (tmp_path / "dev.tables.jsonl").write_text(json.dumps(table))
    tasks = load("importers", "wikisql")(tmp_path / "dev.jsonl", environment=IN_PROCESS)["held_out"]
    environment = agentgym.make(IN_PROCESS)
    rows = []
    for task in tasks:
        await environment.reset(task.public(), seed=0)
        rows.append((await environment.rows(task.truth["sql"]))["rows"])
        assert await gold_is_right(task)
    await environment.close()
    assert rows == [[["Ada Lee"], ["Cy"]], [[1]]]  # SQLite: text stands above every number


@pytest.mark.parametrize(
    ("importer", "files", "complaint"),
    [
        ("spider", {}, "contains none of dev.json"),
        ("spider", {"dev.json": "[]"}, "contains no items"),
        ("spider", {"dev.json": '[{"db_id": "x", "question": "q", "query": "SELECT 1"}]'}, "item 0: its database 'x'"),
        ("bird", {"dev.json": "{"}, "neither a JSON array nor JSON lines"),
        ("bird", {"dev.json": "[3]"}, "item 0: expected a JSON object, found int"),
        ("wikisql", {"dev.jsonl": '{"table_id": "1"}', "dev.tables.jsonl": '{"id": "2"}'}, "its table '1' is not in"),
        (
            "wikisql",
            {"dev.jsonl": '{"table_id": "1"}', "dev.tables.jsonl": '{"id": "1"}'},
            "its query or table does not have WikiSQL's form",
        ),
        ("dbbench", {"dev.jsonl": '{"description": "x"}'}, "item 0: expected lists"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path, importer, files, complaint):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    path = tmp_path / "dev.jsonl" if importer in ("wikisql", "dbbench") else tmp_path
    with pytest.raises(TaskError, match=complaint):
        load("importers", importer)(path)


@needs("dbbench")
@pytest.mark.needs_namespaces
async def test_dbbench_is_judged_by_labels_and_by_the_tables_at_the_end():
    """Played by a script that has read the truth; then the same without its changes and answers.

    A third of them; benchmarks/importers.py plays all 60.
    """
    tasks = load("importers", "dbbench")(DATA / "dbbench/dev.jsonl")["held_out"]
    assert Counter(task.tags[1] for task in tasks if task.tags[1] in ("insert", "update")) == {
        "insert": 20,
        "update": 20,
    }
    assert len(tasks) == 60

    def solver(task):
        calls = [Call("execute", {"sql": sql}) for sql in task.truth["sql"]]
        calls.append(Call("finish", {"answer": str(task.truth.get("answers", ""))}))
        return lambda messages: Message("assistant", "", (calls[sum(m.role == "assistant" for m in messages)],))

    solved = await EpisodeManager(lambda task: ScriptedPolicy(solver(task))).collect(tasks[::3])
    assert len(solved) == 20
    assert [trajectory.task.id for trajectory in solved if trajectory.success != 1.0] == []
    idle = lambda messages: Message("assistant", "", (Call("finish", {"answer": "none"}),))  # noqa: E731
    idled = await EpisodeManager(lambda task: ScriptedPolicy(idle)).collect(tasks[::12])
    assert {trajectory.success for trajectory in idled} == {0.0}


@pytest.mark.parametrize(
    ("file", "sql", "answer"),
    [
        ("chinook.sqlite", "SELECT COUNT(*), ROUND(SUM(Total), 2) FROM Invoice", "412 | 2328.6"),
        (
            "chinook.sqlite",
            "SELECT g.Name, COUNT(*) FROM Track t JOIN Genre g ON g.GenreId = t.GenreId GROUP BY 1 "
            "ORDER BY 2 DESC LIMIT 1",
            "Rock | 1297",
        ),
        ("northwind.db", "SELECT COUNT(*) FROM Orders", "830"),
        ("sakila.db", "SELECT COUNT(*) FROM rental", "16044"),
        ("sakila.db", "SELECT COUNT(*) FROM film", "1000"),
    ],
)
@needs("sample_dbs")
async def test_sample_databases_by_their_path_give_the_known_results(file, sql, answer):
    environment = agentgym.make(IN_PROCESS)
    await environment.reset(
        Task("t", IN_PROCESS, "Q?", parameters={"database": str(DATA / "sample_dbs" / file)}), seed=0
    )
    try:
        assert (await environment.call(Call("query", {"sql": sql}))).content == answer
    finally:
        await environment.close()


def test_a_database_is_found_from_any_folder(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "database" / "pets"
    folder.mkdir(parents=True)
    for name in ("pets", "pets_v1"):
        with closing(sqlite3.connect(folder / f"{name}.sqlite")) as connection:
            connection.execute("CREATE TABLE pet (id)")
            connection.commit()
    item = {"db_id": "pets", "question": "How many?", "query": "SELECT count(*) FROM pet", "SQL": "SELECT 1"}
    (tmp_path / "data/dev.json").write_text(json.dumps([item]))
    monkeypatch.chdir(tmp_path)
    for importer in ("spider", "bird"):
        (task,) = load("importers", importer)("data")["held_out"]
        paths = [task.parameters, *task.truth.get("suite", ())]
        assert all(Path(parameters["database"]).is_absolute() for parameters in paths)


def shop_with(tmp_path, *golds):
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as connection:
        connection.execute("DROP TABLE IF EXISTS item")
        connection.execute("CREATE TABLE item (id INTEGER, name TEXT, kind TEXT)")
        connection.executemany("INSERT INTO item VALUES (?, ?, ?)", [(1, "lamp", "light"), (2, "oil", "fuel")])
        connection.commit()
    items = [{"db_id": "shop", "question": f"Q{n}?", "query": gold} for n, gold in enumerate(golds)]
    (tmp_path / "dev.json").write_text(json.dumps(items))
    return tmp_path


def test_gold_queries_that_do_not_run_or_give_no_rows_are_named_at_import(tmp_path):
    folder = shop_with(tmp_path, "SELECT nme FROM item", "SELECT name FROM item WHERE id > 9", "SELECT 1")
    with pytest.warns(UserWarning, match="gold queries") as notes:
        tasks = load("importers", "spider")(folder, environment=IN_PROCESS)["held_out"]
    assert len(tasks) == 3
    broken, empty = (str(note.message) for note in notes)
    assert "1 of 3 gold queries fail in agentgym/sql-inprocess-v1" in broken
    assert "spider/0000 (SQLite: no such column: nme" in broken
    assert "1 of 3 gold queries return no rows" in empty
    assert empty.endswith("spider/0001.")
    load("importers", "spider")(folder, environment=IN_PROCESS, check_golds=False)  # says nothing


def test_questions_are_split_by_database_and_a_gold_without_rows_is_not_trained_on(tmp_path):
    folder = shop_with(tmp_path, "SELECT name FROM item", "SELECT name FROM item WHERE id > 9")
    (folder / "market.sqlite").write_bytes((folder / "shop.sqlite").read_bytes())
    items = json.loads((folder / "dev.json").read_text())
    (folder / "dev.json").write_text(json.dumps([*items, *({**item, "db_id": "market"} for item in items)]))
    spider = load("importers", "spider")
    with pytest.warns(UserWarning, match="gold queries|split train") as notes:
        split = spider(folder, environment=IN_PROCESS, split="train", held_out="market")
    assert str(notes[-1].message).endswith("the split train leaves out its 1 of these.")
    assert [task.id for task in split["train"]] == ["spider/0000"]
    assert [task.id for task in split["held_out"]] == ["spider/0002", "spider/0003"]
    with pytest.raises(TaskError, match=r"held_out=\['markt'\] must list databases.*there are market, shop"):
        spider(folder, held_out=["markt"])


async def test_gold_queries_can_be_tried_where_an_event_loop_runs_and_are_skipped_without_an_environment(tmp_path):
    folder = shop_with(tmp_path, "SELECT name FROM item")
    load("importers", "spider")(folder, environment=IN_PROCESS)
    with pytest.warns(UserWarning, match="gold queries were not tried: .* has no method rows"):
        load("importers", "spider")(folder, environment="agentgym/text-countdown-v1")


def test_gold_queries_are_written_for_another_engine(tmp_path):
    """Text in double quotes, and columns that are not grouped, are habits of SQLite."""
    pytest.importorskip("sqlglot")
    golds = ('SELECT id FROM item WHERE kind = "fuel"', 'SELECT "name", count(*) FROM item GROUP BY id ORDER BY name')
    tasks = load("importers", "spider")(
        shop_with(tmp_path, *golds), environment=IN_PROCESS, transpile="duckdb", check_golds=False
    )["held_out"]
    assert [task.truth["sql"] for task in tasks] == [
        "SELECT id FROM item WHERE kind = 'fuel'",
        'SELECT ANY_VALUE("name") AS name, COUNT(*) FROM item GROUP BY id ORDER BY name NULLS FIRST',
    ]
    with pytest.raises(TaskError, match="cannot be translated to 'klingon'"):
        load("importers", "spider")(shop_with(tmp_path, *golds[:1]), transpile="klingon")
