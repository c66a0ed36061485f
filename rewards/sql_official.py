"""`sql_official`: the execution accuracy of Spider and of BIRD, as their own scripts compute it.

`sql_execution` requires the same columns in the same order, and compares rows as multisets. The two published metrics
are more lenient, in different ways. Compare leaderboard figures with these components only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

from agentgym import Reward, Task, Trajectory
from agentgym.reward import Components, judge_submission
from agentgym.sandbox import Backend

from .sql_execution import SqlExecution
from .sql_submission import gold_sql, submitted_sql

MAX_TRIED = 2_000

Row = tuple[Any, ...]


NOTHING = {"spider_execution": 0.0, "bird_execution": 0.0}


class SqlOfficial(Reward):
    """Outcome components `spider_execution` and `bird_execution`, both of weight 0: they are only measured.

    `spider_execution`: on every database of the task, the rows are equal after some permutation of the columns. They
    are compared in order if the gold query contains `order by` anywhere, else as multisets. DISTINCT counts, as with
    the script's `--keep_distinct`. `bird_execution`: on the task's own database the sets of rows are equal; order and
    repetition of rows do not count, the order of columns does. Numbers are compared exactly in both.

    Args:
        backend, environment_options: as in `sql_execution`. BIRD's script gives a query 30 s: `{"query_s": 30}`.
    Source: Zhong et al. 2020, arXiv:2010.02840 (its script: github.com/taoyds/test-suite-sql-eval); Li et al. 2023,
        arXiv:2305.03111.
    """

    weights: Mapping[str, float] = {"spider_execution": 0.0, "bird_execution": 0.0}

    def __init__(
        self, *, backend: str | Backend | None = None, environment_options: Mapping[str, Any] | None = None
    ) -> None:
        self._execution = SqlExecution(backend=backend, environment_options=environment_options)

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the gold query or the judge's environment does not work."""
        gold, submitted = gold_sql(episode, "sql_official"), submitted_sql(episode)
        if submitted is None:
            return dict(NOTHING)
        task = episode.task
        return await judge_submission(
            lambda: self._judge(task, gold, submitted), lambda: self._judge(task, gold, gold), dict(NOTHING)
        )

    async def _judge(self, task: Task, gold: str, submitted: str) -> Components:
        spider, bird = True, None
        async with aclosing(self._execution.results(task, gold, submitted)) as results:
            async for expected, result in results:
                comparable = result is not None and not result["more"]
                rows = [tuple(row) for row in result["rows"]] if result is not None and comparable else []
                gold_rows = [tuple(row) for row in expected["rows"]]
                if bird is None:
                    bird = comparable and set(rows) == set(gold_rows)
                spider = comparable and same_up_to_columns(gold_rows, rows, ordered="order by" in gold.lower())
                if not spider:
                    break
        return {"spider_execution": float(spider), "bird_execution": float(bool(bird))}


def same_up_to_columns(gold: Sequence[Row], rows: Sequence[Row], *, ordered: bool, others: bool = False) -> bool:
    """Return whether some permutation of the columns of `rows` gives the gold rows.

    Columns are matched one after another, and a permutation is abandoned when the columns matched so far disagree.
    After MAX_TRIED steps, which no ordinary result needs, the answer is no.

    Args:
        ordered: the rows must have the same order; else they are compared as multisets.
        others: `rows` may have further columns.
    """
    if len(gold) != len(rows) or not gold:
        return len(gold) == len(rows)
    width = len(gold[0])
    total = len(rows[0])
    if total < width or (total > width and not others):
        return False
    columns = [tuple(row[index] for row in rows) for index in range(total)]
    tried = 0

    def matches(chosen: tuple[int, ...]) -> bool:
        gold_part = [row[: len(chosen)] for row in gold]
        part = [tuple(row[index] for index in chosen) for row in rows]
        return gold_part == part if ordered else Counter(gold_part) == Counter(part)

    stack: list[tuple[int, ...]] = [()]
    while stack and tried < MAX_TRIED:
        chosen = stack.pop()
        if len(chosen) == width:
            return True
        unequal = {columns[index]: index for index in reversed(range(total)) if index not in chosen}
        for index in unequal.values():  # equal columns are interchangeable
            tried += 1
            if matches((*chosen, index)):
                stack.append((*chosen, index))
    return False
