"""`sql/schemas-v1` and `sql/changes-v1`: true answers, splits apart, and nothing to be gained without looking."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from agentgym import Call, Message, StopReason, Trajectory, Turn, load_reward, load_task_set
from agentgym.errors import TaskError
from agentgym.messages import Result, ResultStatus
from agentgym.tasks.schemas import changer, database, oracle
from agentgym.tasks.schemas.domains import UNSEEN, domains

SETS = ("sql/schemas-v1", "sql/changes-v1")


def every_task(name):
    return [task for tasks in load_task_set(name).values() for task in tasks]


@pytest.mark.parametrize("name", SETS)
def test_the_sets_are_as_large_as_their_card_says(name):
    task_set = load_task_set(name)
    assert {split: len(task_set[split]) for split in task_set} == {"train": 1200, "validation": 120, "held_out": 240}
    strata = Counter(tag for task in task_set["held_out"] for tag in task.tags if tag.startswith("unseen"))
    assert strata == {"unseen_schemas": 120, "unseen_templates": 120}


@pytest.mark.parametrize("name", SETS)
def test_unseen_schemas_and_templates_are_in_no_training_task(name):
    task_set = load_task_set(name)
    trained_tags = {tag for split in ("train", "validation") for task in task_set[split] for tag in task.tags}
    assert not trained_tags & set(UNSEEN)
    for task in task_set["held_out"]:
        template, domain, stratum = task.tags
        assert (domain in UNSEEN, template in trained_tags) == (stratum == "unseen_schemas",) * 2


@pytest.mark.parametrize(("name", "player"), [("sql/schemas-v1", oracle), ("sql/changes-v1", changer)])
def test_the_oracle_reads_from_every_prompt_what_the_truth_says(name, player):
    """That the truth is solved by it through the tools is checked for every registered set."""
    for task in every_task(name):
        script = player(task)
        messages: list[Message] = []
        while not messages or messages[-1].calls[0].name not in ("submit", "finish"):
            messages.append(script(messages))
        statements = [message.calls[0].arguments.get("sql") for message in messages]
        gold = task.truth["sql"]
        assert statements == ([gold, gold] if isinstance(gold, str) else ["BEGIN", *gold, "COMMIT", None])


def test_databases_of_one_schema_differ_in_facts_alone():
    for domain in domains():
        shapes, contents = set(), set()
        for variant in range(3):
            with closing(sqlite3.connect(":memory:")) as connection:
                connection.deserialize(database(seed=domain.number * 10 + variant))
                shapes.add(tuple(sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master ORDER BY name")))
                first = domain.child.columns[0].name
                names = connection.execute(f"SELECT {first} FROM {domain.child.name} ORDER BY 1").fetchall()
                contents.add((tuple(names), tuple(connection.execute(f"SELECT * FROM {domain.event.name}"))))
                assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert len(shapes) == 1
        assert len({names for names, _ in contents}) == 1
        assert len(contents) == 3
    with pytest.raises(TaskError, match="seeds are 0 to 159"):
        database(seed=160)


async def test_answers_copied_from_one_database_are_caught_by_the_others():
    """The rows of the gold query, spelled out as a query, pass at most one task in fifty."""
    judge = load_reward("sql_execution")
    tasks = load_task_set("sql/schemas-inprocess-v1")["train"][:150]
    lucky = 0
    for task in tasks:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(database(seed=task.parameters["seed"]))
            rows = connection.execute(task.truth["sql"]).fetchmany(50)
        spelled = " UNION ALL ".join("SELECT " + ", ".join(map(_literal, row)) for row in rows)
        call = Call("submit", {"sql": spelled})
        result = Result("Submitted.", ResultStatus.OK, "submit", final=True)
        turn = Turn(0, Message("assistant", "", (call,)), (call,), (result,))
        episode = Trajectory("t", task, turns=[turn], stop_reason=StopReason.ANSWERED)
        lucky += (await judge.outcome(episode))["success"] > 0
    assert lucky <= 3


def _literal(value):
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def test_no_task_is_done_by_doing_nothing():
    for task in every_task("sql/changes-v1")[::9]:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.deserialize(database(seed=task.parameters["seed"]))
            before = list(connection.iterdump())
            for sql in task.truth["sql"]:
                connection.execute(sql)
            assert list(connection.iterdump()) != before, task.id
