"""Read BIRD, or a folder laid out like it, from where the user has it; no data is part of this package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from agentgym import Split, TaskError, TaskSet

from .items import read_items, text_of
from .text_to_sql import ENVIRONMENT, databases_in, first_file, question, splits_of, task_set_of


def load_bird(
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
    """The questions of a BIRD folder as tasks of a text-to-SQL environment, held out by default.

    The folder holds `dev.json` (or `mini_dev_sqlite.json`, `train.json`) with `question`, `evidence`, `SQL` and
    `db_id`, and `dev_databases/<name>/<name>.sqlite` (or any folder of SQLite files). The agent is also told the
    evidence, which explains words of the question in terms of the database.

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
        schema: what the prompt shows of a database, as for `load_spider`.
    Raises: TaskError naming the file, the item and its fault.
    Success is stricter than the published metric, which the reward `sql_official` computes.
    Source: Li et al. 2023, arXiv:2305.03111.
    """
    path = Path(path)
    file = path if path.is_file() else first_file(path, "dev.json", "mini_dev_sqlite.json", "train.json")
    databases = databases_in(file.parent)
    splits = splits_of(databases, split, validation, held_out)
    tasks = []
    for index, item in enumerate(read_items(file)):
        where = f"{file}, item {index}"
        name = text_of(item, where, "db_id")
        if name not in databases:
            raise TaskError(
                f"{where}: its database {name!r} is not in a folder below {file.parent}, where there are "
                f"{len(databases)} others."
            )
        prompt = text_of(item, where, "question")
        if isinstance(item.get("evidence"), str) and item["evidence"].strip():
            prompt += f"\nWhat to know: {item['evidence'].strip()}"
        tasks.append(
            question(
                f"bird/{item.get('question_id', index)}",
                prompt,
                text_of(item, where, "SQL", "query"),
                databases[name],
                split=splits[name],
                set_name="bird",
                name=name,
                hardness=str(item.get("difficulty", "")),
                environment=environment,
                transpile=transpile,
                schema=schema,
            )
        )
    return task_set_of("sql/bird-v1", tasks, path, check_golds=check_golds)
