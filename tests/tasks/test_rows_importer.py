"""Rows of one's own become tasks, and a task file may say where its database is as seen from itself."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym import Call, Message, StopReason, Task, TaskSet, Trajectory, Turn
from agentgym.cli.app import app
from agentgym.errors import TaskError
from agentgym.messages import Result
from agentgym.registry import load_reward
from agentgym.reward import validate_components
from agentgym.tasks.importers.rows import load_rows

ROWS = [{"question": "How many hats?", "value": 3}, {"question": "Which is red?", "value": ["cap", "the cap"]}]


@pytest.fixture
def shop(tmp_path):
    """A folder with a database and questions about it in three formats."""
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as connection:
        connection.execute("CREATE TABLE hats (name TEXT)")
        connection.commit()
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    (tmp_path / "rows.csv").write_text(
        '\ufeffid,question,value,split\na,How many hats?,3,held_out\nb,"Red, or not?",cap,\n'
    )
    return tmp_path


async def test_a_row_becomes_a_task_that_sql_judges(shop):
    tasks = load_rows(shop / "rows.jsonl", prompt="question", answer="value", database="shop.sqlite")["train"]
    path = str(shop / "shop.sqlite")
    assert [(task.id, task.prompt, task.truth) for task in tasks] == [
        ("rows/00000", "How many hats?", {"answer": 3}),
        ("rows/00001", "Which is red?", {"answer": ["cap", "the cap"]}),
    ]
    assert {(task.environment, task.parameters["database"]) for task in tasks} == {("agentgym/sql-v1", path)}
    reward, query = load_reward("sql"), Call("query", {"sql": "SELECT 1"})
    earlier = Turn(0, Message("assistant", ""), (query,), (Result("the cap\n3", name="query"),))
    for number, answer_text, success in ((0, "3", 1.0), (1, "Cap", 1.0), (1, "the cap", 1.0), (1, "hat", 0.0)):
        answer = Call("answer", {"text": answer_text}), Result("ok", name="answer", final=True)
        last = Turn(1, Message("assistant", ""), answer[:1], answer[1:])
        episode = Trajectory("e", tasks[number], stop_reason=StopReason.ANSWERED, turns=[earlier, last])
        assert (await validate_components(reward.outcome(episode), reward))["success"] == success
        assert (await validate_components(reward.turn(earlier, episode), reward))["evidence"] == 1.0


def test_the_command_reads_a_table_with_ids_and_splits(shop):
    out = shop / "tasks.jsonl"
    words = ["tasks", "import", "rows", shop / "rows.csv", "--prompt", "question", "--answer", "value"]
    done = CliRunner().invoke(app, [*map(str, words), "--database", "shop.sqlite", "--out", str(out)])
    assert done.exit_code == 0, done.output
    task_set = TaskSet.from_jsonl(out)
    assert {split: [(t.id, t.prompt) for t in task_set[split]] for split in ("train", "held_out")} == {
        "train": [("b", "Red, or not?")],
        "held_out": [("a", "How many hats?")],
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the environment of these rows is missing"),
        ({"database": "none.sqlite", "prompt": "question"}, r"row 1: the database none\.sqlite does not exist"),
        ({"database": "shop.sqlite"}, r"row 1: none of the fields prompt holds text"),
        (
            {"database": "shop.sqlite", "prompt": "question"},
            r"row 1: expected one of the fields answer, found question",
        ),
        ({"environment": "agentgym/sql-v1", "prompt": "question", "answer": "value", "split": "test"}, "split 'test'"),
    ],
)
def test_what_is_missing_is_named_with_its_row(shop, options, message):
    with pytest.raises(TaskError, match=message):
        load_rows(shop / "rows.jsonl", **options)


def test_a_path_in_a_task_file_is_relative_to_the_file(shop, monkeypatch):
    parameters = {"database": "shop.sqlite", "name": "shop.sqlite"}
    truth = {"sql": "SELECT 1", "suite": [{"database": "./shop.sqlite"}, {"database": "sql/store"}]}
    task = Task("t", "agentgym/sql-query-v1", "?", parameters=parameters, truth=truth)
    TaskSet("x", {"train": [task]}).to_jsonl(shop / "own.jsonl")
    monkeypatch.chdir("/")
    [read] = TaskSet.from_jsonl(shop / "own.jsonl")["train"]
    path = str(shop / "shop.sqlite")
    assert read.parameters == {"database": path, "name": "shop.sqlite"}
    assert read.truth["suite"] == [{"database": path}, {"database": "sql/store"}]


COLUMNS = {
    "question": ["How many?", "How much?", "When?"],
    "value": [3, 4, 5],
    "price": [Decimal("1.50"), Decimal("2.00"), Decimal("3.25")],
    "day": [date(2020, 1, 1), date(2020, 1, 2), date(2020, 1, 3)],
    "either": [["a", None], ["b"], ["c", "d"]],
    "gap": [float("nan"), 1.0, 2.0],
}


def write_table(path: Path) -> None:
    """Write the columns in the format of the file's suffix; `.stream.arrow` as the library datasets does."""
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(COLUMNS)
    if path.suffix.lower() == ".parquet":
        pyarrow.parquet.write_table(table, path)
        return
    make = pyarrow.ipc.new_stream if ".stream" in path.suffixes else pyarrow.ipc.new_file
    with make(str(path), table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize("name", ["rows.parquet", "ROWS.PARQUET", "rows.arrow", "rows.stream.arrow", "rows.feather"])
def test_a_columnar_file_gives_the_same_rows_as_text(shop, name):
    pytest.importorskip("pyarrow.parquet")
    write_table(shop / name)
    read = {"prompt": "question", "database": "shop.sqlite"}
    answers = {
        column: [t.truth["answer"] for t in load_rows(shop / name, answer=column, **read)["train"]]
        for column in COLUMNS
        if column not in ("question", "gap")
    }
    assert answers == {
        "value": [3, 4, 5],
        "price": ["1.50", "2.00", "3.25"],
        "day": ["2020-01-01", "2020-01-02", "2020-01-03"],
        "either": [["a"], ["b"], ["c", "d"]],
    }
    with pytest.raises(TaskError, match="row 1: the answer is nan, where text or a number is expected"):
        load_rows(shop / name, answer="gap", **read)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.parquet", b"hello", r"Cannot read .*rows\.parquet: "),
        ("rows.arrow", b"ARROW1 hello", r"Cannot read .*rows\.arrow: "),
        ("rows.arrow", b"", r"Cannot read .*rows\.arrow: "),
        (
            "rows.jsonl",
            b'{"question": "a", "value": 1}\nno json\n',
            r"neither a JSON array nor JSON lines: line 2, 'no json'",
        ),
        (
            "rows.csv",
            b"question;value\na;1\n",
            r"none of the fields question holds text\. Its fields are question;value",
        ),
        ("rows.csv", b"", "has no rows below its first line"),
        ("rows.csv", b'question,value\na,1\nb," "\n', r"row 2: the answer is ' ', which no answer equals"),
        ("rows.jsonl", b'{"question": "a", "value": ["x", "."]}\n', r"row 1: the answer is '\.', which no answer"),
        ("rows.jsonl", b'{"question": "a", "value": Infinity}\n', "row 1: the answer is inf, where text or a number"),
    ],
)
def test_a_broken_file_is_one_message_with_its_place(shop, name, content, message):
    (shop / name).write_bytes(content)
    with pytest.raises(TaskError, match=message):
        load_rows(shop / name, prompt="question", answer="value", database="shop.sqlite")


def test_json_lines_with_a_byte_order_mark_are_read(shop):
    (shop / "rows.jsonl").write_text("\ufeff" + json.dumps(ROWS[0]))
    assert len(load_rows(shop / "rows.jsonl", prompt="question", answer="value", database="shop.sqlite")["train"]) == 1


def test_a_task_file_with_a_byte_order_mark_is_read(tmp_path):
    """As editors and spreadsheets on Windows write it."""
    task = Task("a", "agentgym/sql-v1", "How many?", truth={"answer": 3})
    (tmp_path / "tasks.jsonl").write_text("\ufeff" + json.dumps(task.to_json()) + "\n")
    assert [task.id for task in TaskSet.from_jsonl(tmp_path / "tasks.jsonl")["train"]] == ["a"]


def test_the_answers_of_rows_are_tried_by_a_validation(shop):
    out = shop / "tasks.jsonl"
    words = ["tasks", "import", "rows", str(shop / "rows.jsonl"), "--prompt", "question", "--answer", "value"]
    words += ["--database", str(shop / "shop.sqlite"), "--validate", "--out", str(out)]
    finished = CliRunner().invoke(app, words, env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    assert finished.exit_code == 0, finished.output
    rows = map(json.loads, out.with_name("tasks.jsonl.verdicts.jsonl").read_text().splitlines())
    assert [(row["id"], row["kind"]) for row in rows] == [("rows/00000", "sound"), ("rows/00001", "sound")]
