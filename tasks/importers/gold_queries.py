"""For all importers of text-to-SQL: check gold queries, and translate them into another dialect."""

from __future__ import annotations

import asyncio
import sqlite3
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from agentgym import AgentGymError, MissingExtraError, Task, TaskError, ToolError, install_command, load, make

NAMED = 40


def without_bad_golds(tasks: Sequence[Task], where: Path) -> list[Task]:
    """Run every gold query in its task's environment, and warn about those that fail or return no rows.

    All queries run in one environment of the tasks' kind, each on its task's database. If a gold query fails, its task
    cannot be judged. If it returns no rows, any query that returns as many columns and no rows counts as right.

    Returns: the tasks, without those of the split `train` whose gold query fails or returns no rows.
    Warns: if some gold queries fail or return no rows; also, with the reason, if no query could be tried.
    """
    with ThreadPoolExecutor(1) as thread:  # in a new event loop: the caller's may be running
        try:
            problems = thread.submit(lambda: asyncio.run(_try_golds(tasks))).result()
        except AgentGymError as error:
            warnings.warn(f"{where}: the gold queries were not tried: {error}", stacklevel=3)
            return [*tasks]
    broken = [f"{task.id} ({problem})" for task, problem in problems if problem]
    empty = [task.id for task, problem in problems if not problem]
    bad = {task.id for task, _ in problems if task.split == "train"}
    if broken:
        warnings.warn(
            (
                f"{where}: {len(broken)} of {len(tasks)} gold queries fail in {tasks[0].environment}, so their "
                f"episodes cannot be judged. Leave these tasks out, or translate the queries by transpile=: "
                f"{_listed(broken)}."
            ),
            stacklevel=3,
        )
    if empty:
        warnings.warn(
            (
                f"{where}: {len(empty)} of {len(tasks)} gold queries return no rows, so any query with as many "
                f"columns and no rows counts as right: {_listed(empty)}."
            ),
            stacklevel=3,
        )
    if bad:
        warnings.warn(f"{where}: the split train leaves out its {len(bad)} of these.", stacklevel=3)
    return [task for task in tasks if task.id not in bad]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return "; ".join(names[:NAMED]) + more


async def _try_golds(tasks: Sequence[Task]) -> list[tuple[Task, str]]:
    """Return the tasks whose gold query fails, with the reason, or returns no rows, with an empty reason."""
    problems: list[tuple[Task, str]] = []
    backend = load("backends", "namespaces")()
    environment: Any = make(tasks[0].environment, backend=backend)
    try:
        if not hasattr(environment, "rows"):
            raise TaskError(f"{tasks[0].environment} has no method rows(), so queries cannot be judged in it.")
        database = None
        for task in sorted(tasks, key=lambda task: repr(task.parameters)):
            if database != task.parameters:
                await environment.reset(task.public(), seed=0)
                database = task.parameters
            try:
                result = await environment.rows(task.truth["sql"])
            except ToolError as error:
                problems.append((task, str(error)[:120]))
            else:
                if not result["rows"]:
                    problems.append((task, ""))
                elif result["more"]:
                    problems.append((task, f"it gives more than {len(result['rows'])} rows"))
    finally:
        await environment.close()
        await backend.close()
    return sorted(problems, key=lambda problem: problem[0].id)


def transpiled(sql: str, dialect: str, names: Iterable[str]) -> str:
    """Translate an SQLite query into another dialect with sqlglot.

    Two idioms of SQLite are rewritten: text in double quotes becomes a string unless it is one of `names`, and a column
    that is neither grouped nor aggregated becomes any value of its group.

    Raises: MissingExtraError without sqlglot; TaskError if the query is unreadable or the dialect unknown.
    """
    try:
        import sqlglot
        from sqlglot import exp
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"transpile= needs the package sqlglot, which is not installed. Run: {install_command('sql')}"
        ) from error
    try:
        tree = sqlglot.parse_one(sql, read="sqlite")
        known = {name.casefold() for name in names} | {alias.alias.casefold() for alias in tree.find_all(exp.Alias)}
        for column in list(tree.find_all(exp.Column)):
            if column.this.args.get("quoted") and not column.table and column.name.casefold() not in known:
                column.replace(exp.Literal.string(column.name))
        for select in list(tree.find_all(exp.Select)):
            if group := select.args.get("group"):
                _take_any_value(select, {expression.sql() for expression in group.expressions})
        return str(tree.sql(dialect))
    except (sqlglot.errors.SqlglotError, ValueError) as error:
        raise TaskError(f"The query {sql!r:.200} cannot be translated to {dialect!r}: {str(error)[:200]}") from error


def _take_any_value(select: Any, grouped: set[str]) -> None:
    """Wrap the columns of a grouped SELECT that are neither grouped nor aggregated."""
    from sqlglot import exp

    outputs = [*select.expressions, select.args.get("having"), select.args.get("order")]
    aliases = {expression.alias_or_name.casefold() for expression in select.expressions}
    for output in filter(None, outputs):
        is_expression = output.arg_key == "expressions"
        for column in list(output.find_all(exp.Column)):
            is_own = column.find_ancestor(exp.Select) is select
            is_alias = not is_expression and not column.table and column.name.casefold() in aliases
            is_grouped = column.sql() in grouped or column.find_ancestor(exp.AggFunc) or is_alias
            if is_own and not is_grouped and not isinstance(column.this, exp.Star):
                any_value = exp.AnyValue(this=column.copy())
                column.replace(exp.alias_(any_value, column.name) if column is output else any_value)


def names_in(database: Path) -> set[str]:
    """Return the names of the tables and columns of an SQLite file."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)) as connection:
        listing = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        tables = [name for (name,) in connection.execute(listing).fetchall()]
        names = set(tables)
        for table in tables:
            quoted = table.replace('"', '""')
            names |= {row[1] for row in connection.execute(f'PRAGMA table_info("{quoted}")')}
    return names
