"""Parses SQL for the rewards that judge a query's text: one SELECT, and the names that it uses. Needs sqlglot."""

from __future__ import annotations

from typing import Any

from agentgym import MissingExtraError, install_command

from .sql_submission import MAX_SQL

DIALECTS = {"agentgym/sql-duckdb-v1": "duckdb", "agentgym/sql-postgres-v1": "postgres"}
MAX_DEPTH = 200
"""The deepest nesting of parentheses that is parsed, so that no query exhausts the parser's stack."""


def dialect_of(environment: str) -> str:
    """Return an environment's SQL dialect, SQLite's by default."""
    return DIALECTS.get(environment, "sqlite")


def parse_select(sql: str, dialect: str = "sqlite") -> Any | None:
    """Return a query's syntax tree; None if the text is not exactly one SELECT that can be parsed.

    Raises: MissingExtraError without the extra `sql`.
    """
    try:
        import sqlglot
        from sqlglot import exp
        from sqlglot.errors import SqlglotError
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"Parsing SQL needs the package sqlglot, which is not installed. Run: {install_command('sql')}"
        ) from error
    if len(sql) > MAX_SQL or _depth(sql) > MAX_DEPTH:
        return None
    try:
        statements = [statement for statement in sqlglot.parse(sql, read=dialect) if statement is not None]
    except (SqlglotError, RecursionError, ValueError):
        return None
    return statements[0] if len(statements) == 1 and isinstance(statements[0], exp.Query) else None


def schema_items(tree: Any) -> frozenset[str]:
    """Return the tables and columns that a query names, ignoring case, without its own aliases and subqueries."""
    from sqlglot import exp

    subqueries = {node.alias_or_name.casefold() for node in tree.find_all(exp.CTE)}
    tables = {node.name.casefold() for node in tree.find_all(exp.Table) if node.name}
    columns = {node.name.casefold() for node in tree.find_all(exp.Column) if node.name}
    aliases = {
        node.alias.casefold()
        for node in tree.find_all(exp.Alias)
        if node.alias and node.this.name.casefold() != node.alias.casefold()
    }
    return frozenset(
        {f"table {name}" for name in tables - subqueries} | {f"column {name}" for name in columns - aliases}
    )


def _depth(sql: str) -> int:
    deepest = depth = 0
    for char in sql:
        depth += (char in "([") - (char in ")]")
        deepest = max(deepest, depth)
    return deepest
