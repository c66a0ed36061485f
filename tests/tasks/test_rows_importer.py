"""Rows of one's own become tasks, and a task file may say where its database is as seen from itself."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

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
        ({}, "which environment plays these rows"),
        ({"database": "none.sqlite", "prompt": "question"}, r"row 1: there is no database none\.sqlite"),
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
