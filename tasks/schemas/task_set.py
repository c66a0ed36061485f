"""The task sets over the generated databases: questions (`sql/schemas-v1`) and changes (`sql/changes-v1`), and the same
on other engines.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from agentgym import Split, Task, TaskError, TaskSet, seed_of

from . import alterations, questions
from .database import VARIANTS, database
from .domains import UNSEEN, Domain, domains
from .oracle import answer, changer, oracle
from .template import SchemaTemplate

SIZES = {"train": 1_200, "validation": 120, "unseen_schemas": 120, "unseen_templates": 120}
SUITE = (1, 2)
"""Variants of a domain on which a query must also be right."""


@cache
def schemas(seed: int = 0) -> TaskSet:
    """Questions to be answered with a query on SQLite in a sandbox. The seed chooses the questions."""
    return _questions("sql/schemas-v1", "agentgym/sql-query-v1", seed)


@cache
def schemas_inprocess(seed: int = 0) -> TaskSet:
    """The questions of `sql/schemas-v1`, on SQLite in the process that plays."""
    return _questions("sql/schemas-inprocess-v1", "agentgym/sql-inprocess-v1", seed)


@cache
def schemas_duckdb(seed: int = 0) -> TaskSet:
    """The questions of `sql/schemas-v1`, on DuckDB in a sandbox."""
    return _questions("sql/schemas-duckdb-v1", "agentgym/sql-duckdb-v1", seed)


@cache
def changes(seed: int = 0) -> TaskSet:
    """Changes to be made to an SQLite database. The seed chooses the changes."""
    return _changes("sql/changes-v1", "agentgym/sql-write-v1", seed)


@cache
def changes_postgres(seed: int = 0) -> TaskSet:
    """The changes of `sql/changes-v1`, to be made on a PostgreSQL server."""
    return _changes("sql/changes-postgres-v1", "agentgym/sql-postgres-v1", seed)


def _questions(name: str, environment: str, seed: int) -> TaskSet:
    splits = _generate("sql/schemas", environment, seed, questions.TRAIN, questions.HELD_OUT, _question_truth)
    return TaskSet(name, splits, oracle=oracle, answer=answer)


def _changes(name: str, environment: str, seed: int) -> TaskSet:
    splits = _generate("sql/changes", environment, seed, alterations.TRAIN, alterations.HELD_OUT, _change_truth)
    return TaskSet(name, splits, oracle=changer)


def _question_truth(connection: sqlite3.Connection, number: int, statements: Sequence[str]) -> dict[str, Any] | None:
    """Return the truth of a question; None if there is no answer, or if it is NULL or 0, which an agent could guess."""
    rows = connection.execute(statements[0]).fetchmany(2)
    if not rows or rows in ([(None,)], [(0,)]):
        return None
    return {"sql": statements[0], "suite": [{"seed": number * VARIANTS + variant} for variant in SUITE]}


def _change_truth(connection: sqlite3.Connection, number: int, statements: Sequence[str]) -> dict[str, Any] | None:
    """Return the truth of a change; None if it changes nothing, because doing nothing would then succeed."""
    changed = connection.total_changes
    connection.execute("SAVEPOINT trial")
    for statement in statements:
        connection.execute(statement)
    creates_table = any(statement.startswith("CREATE") for statement in statements)
    changed = connection.total_changes - changed
    connection.execute("ROLLBACK TO trial")
    connection.execute("RELEASE trial")
    return {"sql": list(statements)} if changed or creates_table else None


@dataclass(slots=True)
class SchemaTasks:
    """Draws random tasks, and never one that it has drawn before."""

    family: str
    environment: str
    seed: int
    connections: list[sqlite3.Connection]
    truth_of: Callable[[sqlite3.Connection, int, Sequence[str]], dict[str, Any] | None]
    used: set[tuple[int, str]]

    def draw(
        self, split: Split, stratum: str, templates: Sequence[SchemaTemplate], chosen: Sequence[Domain]
    ) -> Iterator[Task]:
        for index in range(SIZES[stratum]):
            rng = random.Random(seed_of(self.family, split, stratum, self.seed, index))
            for _ in range(2_000):
                template, domain = rng.choice(templates), rng.choice(chosen)
                prompt, statements = template.fill(domain, template.draw(domain, rng))
                if (domain.number, prompt) in self.used:
                    continue
                truth = self.truth_of(self.connections[domain.number], domain.number, statements)
                if truth is not None:
                    break
            else:
                raise TaskError(
                    f"{self.family}: there is no further question for {stratum}. Ask for fewer than {index}."
                )
            self.used.add((domain.number, prompt))
            yield Task(
                id=f"{stratum}/{index:04d}",
                environment=self.environment,
                prompt=prompt,
                parameters={"database": "sql/schemas", "seed": domain.number * VARIANTS, "show_schema": True},
                truth=truth,
                split=split,
                tags=(template.name, domain.name, *((stratum,) if split == "held_out" else ())),
                difficulty=template.difficulty,
            )


@cache
def _generate(
    family: str,
    environment: str,
    seed: int,
    train: tuple[SchemaTemplate, ...],
    held_out: tuple[SchemaTemplate, ...],
    truth_of: Callable[[sqlite3.Connection, int, Sequence[str]], dict[str, Any] | None],
) -> dict[str, list[Task]]:
    """Generate the splits. The sets of different engines differ only in their environment."""
    if environment not in ("agentgym/sql-query-v1", "agentgym/sql-write-v1"):
        first = "agentgym/sql-query-v1" if family == "sql/schemas" else "agentgym/sql-write-v1"
        return {
            split: [replace(task, environment=environment) for task in tasks]
            for split, tasks in _generate(family, first, seed, train, held_out, truth_of).items()
        }
    trained = [domain for domain in domains() if domain.name not in UNSEEN]
    unseen = [domain for domain in domains() if domain.name in UNSEEN]
    with ExitStack() as stack:
        connections = []
        for domain in domains():
            connection = stack.enter_context(closing(sqlite3.connect(":memory:", isolation_level=None)))
            connection.deserialize(database(seed=domain.number * VARIANTS))
            connections.append(connection)
        generator = SchemaTasks(family, environment, seed, connections, truth_of, set())
        unseen_schemas = generator.draw("held_out", "unseen_schemas", train, unseen)
        held_out_tasks = [*unseen_schemas, *generator.draw("held_out", "unseen_templates", held_out, trained)]
        validation = [*generator.draw("validation", "validation", train, trained)]
        train_tasks = [*generator.draw("train", "train", train, trained)]
        return {"train": train_tasks, "validation": validation, "held_out": held_out_tasks}
