"""`sql_table`: whether a query returns one of the task's result tables, for sets without gold queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from agentgym import JudgeError, Reward, Task, ToolError, Trajectory
from agentgym.reward import SUCCESS, Components, judge_submission
from agentgym.sandbox import Backend

from .judge_environment import judge_environment
from .sql_official import Row, same_up_to_columns
from .sql_submission import submitted_sql

HARMLESS = "SELECT 1"
FEWEST_DIGITS, MOST_DIGITS = 6, 12


class SqlTable(Reward):
    """Outcome components `success` (the result is one of the tables) and `runs` (the query ran, weight 0.1).

    `truth["tables"]` lists the right tables, each as {"rows": [[...], ...]}, and optionally "columns": the indices of
    the columns that a result must have (all by default), "ordered": whether the order of the rows counts (by default it
    does not). A result may have additional columns, in any order. The query runs in a fresh environment of the task's
    own kind, as in `sql_execution`.

    Args:
        digits: significant digits to which fractional numbers are compared; by default as many as the table's numbers
            have, but 6 to 12. So rounded numbers pass, but a sum that lacks a row does not.
        backend, environment_options: as in `sql_execution`.
    Source: Lei et al. 2024, arXiv:2411.07763 (Spider 2.0), for several right tables and for required columns. Its
        script compares columns one by one; here whole rows must agree.
    """

    weights: Mapping[str, float] = {"runs": 0.1}

    def __init__(
        self,
        *,
        digits: int | None = None,
        backend: str | Backend | None = None,
        environment_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.digits, self.backend, self.environment_options = digits, backend, dict(environment_options or {})

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the task has no usable tables, or the judge's environment does not work.
        """
        task, submitted = episode.task, submitted_sql(episode)
        tables = self._tables(task.truth, task.id)
        if submitted is None:
            return {SUCCESS: 0.0, "runs": 0.0}
        result = await judge_submission(lambda: self._run(task, submitted), lambda: self._run(task, HARMLESS), None)
        if result is None:
            return {SUCCESS: 0.0, "runs": 0.0}
        right = not result["more"] and any(self._same(table, result["rows"], ordered) for table, ordered in tables)
        return {SUCCESS: float(right), "runs": 1.0}

    async def _run(self, task: Task, sql: str) -> dict[str, Any] | None:
        """Return a query's result; None if it does not run. Raises: JudgeError."""
        options = self.environment_options
        async with judge_environment(task, "rows", "sql_table", self.backend, options) as environment:
            await environment.reset(task.public(), seed=0)
            try:
                result: dict[str, Any] = await environment.rows(sql)
            except ToolError:
                return None
        return result

    def _tables(self, truth: Any, name: str) -> list[tuple[list[Row], bool]]:
        """Return, for each table, the rows of its required columns, and whether their order counts.

        Raises: JudgeError.
        """
        tables = truth.get("tables") if isinstance(truth, dict) else None
        try:
            parsed = []
            for table in tables or ():
                chosen = table.get("columns")
                rows = [row if chosen is None else [row[index] for index in chosen] for row in table["rows"]]
                parsed.append(([tuple(row) for row in rows], bool(table.get("ordered", False))))
        except (TypeError, KeyError, IndexError, AttributeError) as error:
            raise JudgeError(f"{name}: truth['tables'] is not a list of tables with rows: {error!r}.") from error
        if not parsed or not all(rows for rows, _ in parsed):
            raise JudgeError(f"{name}: truth['tables'] has no table with rows, so sql_table cannot judge it.")
        return parsed

    def _same(self, table: Sequence[Row], rows: Sequence[Row], ordered: bool) -> bool:
        digits = self.digits or max(FEWEST_DIGITS, *(_digits(value) for row in table for value in row))
        gold, result = ([tuple(_rounded(value, digits) for value in row) for row in each] for each in (table, rows))
        return same_up_to_columns(gold, result, ordered=ordered, others=True)


def _digits(value: Any) -> int:
    """Return the number of significant digits of a fractional number, at most MOST_DIGITS; 0 for anything else."""
    if not isinstance(value, float) or not math.isfinite(value) or value.is_integer():
        return 0
    return min(len(Decimal(repr(value)).as_tuple().digits), MOST_DIGITS)


def _rounded(value: Any, digits: int) -> Any:
    return float(f"{value:.{digits}g}") if isinstance(value, float) and not value.is_integer() else value
