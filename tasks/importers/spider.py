"""Read Spider (text to SQL over many databases) from a folder that the user has; no data is part of this package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from agentgym import Split, Task, TaskError, TaskSet

from .items import read_items, text_of
from .text_to_sql import ENVIRONMENT, databases_in, first_file, question, splits_of, task_set_of

FILES = ("dev.json", "questions.json", "test.json", "ic_spider_dev.json", "train_spider.json")


def load_spider(
    path: str | Path,
    *,
    split: Split = "held_out",
    validation: str | Sequence[str] = (),
    held_out: str | Sequence[str] = (),
    environment: str = ENVIRONMENT,
    transpile: str | None = None,
    check_golds: bool = True,
    schema: Literal["columns", "statements", "none"] = "columns",
) -> TaskSet:
    """The questions of a Spider folder as tasks of a text-to-SQL environment, held out by default.

    The folder holds the questions (`dev.json`, or `questions.json` as InterCode packages them) and the databases
    (`database/<name>/<name>.sqlite`, or SQLite files in any folder below). If a folder `database/<name>` has further
    SQLite files, as the published test suites have, a query must be right on each of them. If a question about a
    database occurs several times, it becomes one task.

    Args:
        path: the folder, or the file of questions in it.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
        validation: databases (a list, or text with commas) whose tasks are for validation, regardless of `split`.
        held_out: databases whose tasks are held out, regardless of `split`.
        environment: the tasks' environment, by default SQLite in a sandbox. Another one may have another dialect of
            SQL: see `transpile`.
        transpile: the dialect of the environment's engine, such as "duckdb"; sqlglot writes the gold queries in it.
        check_golds: run every gold query. A warning names those that fail or return no rows; their tasks are left out
            of the split train.
        schema: what the prompt shows of a database: its tables with their `columns`, or the `statements` that create
            them, with types and keys; the agent then has no tools that list tables and columns. SQLite only. With
            `none` the agent learns of the tables by its tools alone.
    Raises: TaskError naming the file, the item and its fault.
    Success is stricter than the published metric, which the reward `sql_official` computes.
    Source: Yu et al. 2018, arXiv:1809.08887; test suites: Zhong et al. 2020, arXiv:2010.02840.
    """
    path = Path(path)
    file = path if path.is_file() else first_file(path, *FILES)
    databases = databases_in(file.parent)
    splits = splits_of(databases, split, validation, held_out)
    tasks: list[Task] = []
    known_questions: set[tuple[str, str]] = set()
    for index, item in enumerate(read_items(file)):
        where = f"{file}, item {index}"
        name = text_of(item, where, "db_id", "db")
        prompt = text_of(item, where, "question") if "question" in item else text_of(item, where, "query")
        gold = text_of(item, where, "gold") if "gold" in item else text_of(item, where, "query")
        if name not in databases:
            raise TaskError(
                f"{where}: its database {name!r} is not in a folder below {file.parent}, where there are "
                f"{len(databases)} others."
            )
        if (name, " ".join(prompt.casefold().split())) in known_questions:
            continue
        known_questions.add((name, " ".join(prompt.casefold().split())))
        tasks.append(
            question(
                f"spider/{index:04d}",
                prompt,
                gold,
                databases[name],
                split=splits[name],
                set_name="spider",
                name=name,
                hardness=str(item.get("hardness", "")),
                environment=environment,
                transpile=transpile,
                suite=_suite(databases[name]),
                schema=schema,
            )
        )
    return task_set_of("sql/spider-v1", tasks, path, check_golds=check_golds)


def _suite(database: Path) -> tuple[str, ...]:
    """Return further databases with the same schema: the other files in the folder named after the database."""
    if database.parent.name != database.stem:
        return ()
    return tuple(sorted(str(sibling) for sibling in database.parent.glob(f"*{database.suffix}") if sibling != database))
