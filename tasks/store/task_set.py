"""The task sets `sql/store-v1` and `sql/store-v2`: questions about the store, and their splits."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache

from agentgym import Split, Task, TaskError, TaskSet, seed_of

from .database import database
from .names import cast
from .oracle import answer, imperfect_oracle, oracle
from .templates import COMBINED, HELD_OUT, TRAIN, QuestionTemplate

NAME, NAME_V2 = "sql/store-v1", "sql/store-v2"
SIZES = {"train": 2_400, "validation": 240, "unseen_entities": 240, "unseen_templates": 240, "unseen_combinations": 120}
TWO_HOP_SHARE = 0.4
RESERVED = 5
"""Every fifth name of a kind is reserved for the stratum `unseen_entities`."""


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Questions about a store, to be answered by querying its SQLite database.

    The seed chooses the questions; the database is always that of seed 0.

    Held-out tasks carry the tag `unseen_entities` (kinds of question of the training tasks, about names that no other
    question has) or `unseen_templates` (kinds of question that no training task has).
    """
    return _with_players(NAME, _splits(seed))


@cache
def task_set_v2(seed: int = 0) -> TaskSet:
    """The tasks of `sql/store-v1`, with one more held-out stratum, `unseen_combinations`.

    No training task has its kinds of question, but every part of them occurs in training tasks. `unseen_templates` also
    asks for tables, columns and functions that no other question needs; a model that knows only this set cannot answer
    these.
    """
    splits = _splits(seed, (("unseen_combinations", COMBINED),))
    return _with_players(NAME_V2, splits)


def _with_players(name: str, splits: dict[str, list[Task]]) -> TaskSet:
    return TaskSet(name, splits, oracle=oracle, imperfect_oracle=imperfect_oracle, answer=answer, generate=_like)


def _like(task: Task, seed: int) -> Task:
    """Return a question of the task's kind about another name, one that training tasks may use."""
    [template] = [template for template in TRAIN if template.name in task.tags]
    name = random.Random(seed).choice(_names(template.kind, False))
    with closing(_connect()) as connection:
        return _task(connection, template, name, "train", "train", 0)


def _splits(seed: int, more_held_out: Sequence[tuple[str, Sequence[QuestionTemplate]]] = ()) -> dict[str, list[Task]]:
    used: set[tuple[str, str]] = set()
    with closing(_connect()) as connection:

        def draw(split: Split, stratum: str, templates: Sequence[QuestionTemplate], reserved: bool) -> list[Task]:
            return [
                _draw(connection, used, split, stratum, templates, reserved, seed, index)
                for index in range(SIZES[stratum])
            ]

        unseen = draw("held_out", "unseen_entities", TRAIN, True)
        unseen += draw("held_out", "unseen_templates", HELD_OUT, False)
        validation = draw("validation", "validation", TRAIN, False)  # before train, which exhausts small kinds
        train = draw("train", "train", TRAIN, False)
        for stratum, templates in more_held_out:  # last, so that it does not change other tasks
            unseen += draw("held_out", stratum, templates, False)
    return {"train": train, "validation": validation, "held_out": unseen}


def _draw(
    connection: sqlite3.Connection,
    used: set[tuple[str, str]],
    split: Split,
    stratum: str,
    templates: Sequence[QuestionTemplate],
    reserved: bool,
    seed: int,
    index: int,
) -> Task:
    """Draw a question that is not in `used`. Each task has its own random stream, so sizes may change independently."""
    rng = random.Random(seed_of(NAME, split, stratum, seed, index))
    one_hop, more_hops = [t for t in templates if t.hops == 1], [t for t in templates if t.hops > 1]
    candidates = one_hop if one_hop and rng.random() >= TWO_HOP_SHARE else more_hops
    for _ in range(10_000):
        template = rng.choice(candidates)
        name = rng.choice(_names(template.kind, reserved))
        if (template.name, name) in used:
            continue
        used.add((template.name, name))
        return _task(connection, template, name, split, stratum, index)
    raise TaskError(f"{NAME}: there is no further question for {stratum}. Ask for fewer than {SIZES[stratum]}.")


def _task(
    connection: sqlite3.Connection, template: QuestionTemplate, name: str, split: Split, stratum: str, index: int
) -> Task:
    evidence: list[str] = []
    for step in template.steps:
        evidence.append(_value(connection, step.format(*evidence, name=name)))
    gold = template.gold.format(name=name)
    answer = _value(connection, gold)
    if evidence.pop() != answer:
        raise TaskError(f"{NAME}: the steps of {template.name} and its gold query give different answers for {name!r}.")
    return Task(
        id=f"{stratum}/{index:04d}",
        environment="agentgym/sql-v1",
        prompt=template.question.format(name=name),
        parameters={"database": "sql/store"},
        truth={"sql": gold, "answer": answer, "evidence": evidence},
        split=split,
        tags=(template.name, f"hops_{template.hops}", *((stratum,) if split == "held_out" else ())),
        difficulty=float(template.hops),
    )


@cache
def _names(kind: str, reserved: bool) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(cast(), kind)
    return tuple(name for number, name in enumerate(names) if (number % RESERVED == 0) is reserved)


def _value(connection: sqlite3.Connection, query: str) -> str:
    """Return the single value of a query's result, as the environment shows it."""
    rows = connection.execute(query).fetchmany(2)
    if len(rows) != 1 or len(rows[0]) != 1 or rows[0][0] is None:
        raise TaskError(f"{NAME}: {query!r} must return one value, but returns {rows}.")
    return str(rows[0][0])


def _connect() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(database())
    return connection
