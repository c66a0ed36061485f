"""Reading SQL for the judges that look at a query's text: one SELECT or none, and the names it uses. Needs sqlglot."""

from __future__ import annotations

from typing import Any

from agentgym import MissingExtraError

from .sql_submission import MAX_SQL

DIALECTS = {"agentgym/sql-duckdb-v1": "duckdb", "agentgym/sql-postgres-v1": "postgres"}
MAX_DEPTH = 200
"""Parentheses within each other; deeper ones are not read, so that no query exhausts the parser's stack."""


def dialect_of(environment: str) -> str:
    """The dialect spoken in an environment: SQLite's unless it has another engine."""
    return DIALECTS.get(environment, "sqlite")


def parse_select(sql: str, dialect: str = "sqlite") -> Any | None:
    """A query's tree; None if the text is not exactly one SELECT that can be read.

    Raises: MissingExtraError without the extra `sql`.
    """
    try:
        import sqlglot
        from sqlglot import exp
        from sqlglot.errors import SqlglotError
    except ModuleNotFoundError as error:
        raise MissingExtraError("Parsing SQL needs sqlglot: pip install 'agentgym-core[sql]'.") from error
    if len(sql) > MAX_SQL or _depth(sql) > MAX_DEPTH:
        return None
    try:
        found = [one for one in sqlglot.parse(sql, read=dialect) if one is not None]
    except (SqlglotError, RecursionError, ValueError):
        return None
    return found[0] if len(found) == 1 and isinstance(found[0], exp.Query) else None


def schema_items(tree: Any) -> frozenset[str]:
    """The tables and columns that a query names, without case; its own aliases and subqueries are none."""
    from sqlglot import exp

    own = {one.alias_or_name.casefold() for one in tree.find_all(exp.CTE)}
    tables = {one.name.casefold() for one in tree.find_all(exp.Table) if one.name}
    columns = {one.name.casefold() for one in tree.find_all(exp.Column) if one.name}
    invented = {
        one.alias.casefold()
        for one in tree.find_all(exp.Alias)
        if one.alias and one.this.name.casefold() != one.alias.casefold()
    }
    return frozenset({f"table {name}" for name in tables - own} | {f"column {name}" for name in columns - invented})


def _depth(sql: str) -> int:
    deepest = depth = 0
    for char in sql:
        depth += (char in "([") - (char in ")]")
        deepest = max(deepest, depth)
    return deepest
