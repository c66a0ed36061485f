"""`sql_execution`: whether the submitted query returns the gold query's result on every database of the task."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from agentgym import JudgeError, Reward, Task, ToolError, Trajectory
from agentgym.reward import SUCCESS, Components, judge_submission
from agentgym.sandbox import Backend

from .judge_environment import judge_environment
from .sql_rows import asks_for_order, same_rows
from .sql_submission import gold_sql, submitted_sql

CACHE_SIZE, CACHED_CHARS = 512, 100_000
SLACK = 10_000
"""Steps added to those of both queries in `economy`, so that all cheap queries score about the same."""


@dataclass(slots=True)
class QueryVerdict:
    """Result of a submitted query.

    Attributes:
        matched: for each database, whether the rows were right. runs: whether the query ran at all.
        steps, gold_steps: the engine's steps for both queries; `steps` is None if the engine counts none.
    """

    matched: list[bool]
    runs: bool = False
    steps: int | None = None
    gold_steps: int = 0


class SqlExecution(Reward):
    """Outcome components `success` (right rows on every database), `runs` (it ran), `databases` (share of right ones),
    `economy`.

    Both queries run in a fresh environment of the task's own kind, `agentgym.make(task.environment)`, which the agent
    never touched. It must have the method `rows(sql)` (see docs/environments/data.md). They run on the task's database,
    then on each of `truth["suite"]`, a list of parameters that replace the task's, such as `[{"seed": 1}]`, because a
    query that is right by luck on one database is wrong on another. Rows are compared as multisets, and in order only
    if the gold query orders its outermost SELECT.

    `economy` is given for a success if the engine counts its steps: the gold query's steps divided by the submitted
    query's, at most 1. Unlike seconds, steps are the same on every host. `runs` has weight 0.1; `databases` and
    `economy` have weight 0.

    Args:
        tolerance: relative difference up to which two numbers are equal, unless both are whole.
        backend: creates the judge's sandboxes; a name or a Backend.
        environment_options: options of the judge's environment, such as `{"query_s": 30}` for slow gold queries.
    Source: Zhong et al. 2020, arXiv:2010.02840 (test suites); the reward for running: Reasoning-SQL, arXiv:2503.23157;
        economy: the efficiency score of BIRD, arXiv:2305.03111, in steps.
    """

    weights: Mapping[str, float] = {"runs": 0.1, "databases": 0.0, "economy": 0.0}

    def __init__(
        self,
        *,
        tolerance: float = 1e-9,
        backend: str | Backend | None = None,
        environment_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.tolerance, self.backend, self.environment_options = tolerance, backend, dict(environment_options or {})
        self._gold: OrderedDict[str, dict[str, Any]] = OrderedDict()

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the gold query or the judge's environment does not work."""
        gold = gold_sql(episode, "sql_execution")
        submitted = submitted_sql(episode)
        if submitted is None:
            return {SUCCESS: 0.0, "runs": 0.0, "databases": 0.0}
        verdict = await judge_submission(
            lambda: self.judge(episode.task, gold, submitted),
            lambda: self.judge(episode.task, gold, gold),
            QueryVerdict([False] * len(variants_of(episode.task))),
        )
        success = all(verdict.matched)
        components = {SUCCESS: float(success), "runs": float(verdict.runs)}
        components["databases"] = sum(verdict.matched) / len(verdict.matched)
        if success and verdict.steps is not None:
            components["economy"] = min(1.0, (verdict.gold_steps + SLACK) / (verdict.steps + SLACK))
        return components

    async def judge(self, task: Task, gold: str, submitted: str) -> QueryVerdict:
        """Run both queries on each database until the first difference. Raises: JudgeError."""
        verdict = QueryVerdict([False] * len(variants_of(task)))
        async with aclosing(self.results(task, gold, submitted)) as results:
            index = 0
            async for expected, result in results:
                if result is None:
                    break
                verdict.runs = True
                if result["steps"] is not None:
                    verdict.steps = (verdict.steps or 0) + result["steps"]
                    verdict.gold_steps += expected["steps"]
                verdict.matched[index] = (
                    not result["more"]
                    and expected.get("columns") == result.get("columns")  # empty results can only differ in this
                    and same_rows(
                        expected["rows"], result["rows"], ordered=asks_for_order(gold), tolerance=self.tolerance
                    )
                )
                if not verdict.matched[index]:
                    break
                index += 1
        return verdict

    async def results(
        self, task: Task, gold: str, submitted: str
    ) -> AsyncGenerator[tuple[dict[str, Any], dict[str, Any] | None], None]:
        """Yield both queries' results on each database of the task, with None in place of the submitted query's if that
        does not run.

        Yields: results of the environment's `rows(sql)`, for the gold query and for the submitted one.
        Raises: JudgeError if the gold query or the judge's environment does not work.
        """
        options = self.environment_options
        async with judge_environment(task, "rows", "sql_execution", self.backend, options) as environment:
            for task_variant in variants_of(task):
                await environment.reset(task_variant, seed=0)
                expected = await self._expected(environment, task_variant, gold)
                try:
                    yield expected, await environment.rows(submitted)
                except ToolError:
                    yield expected, None

    async def _expected(self, environment: Any, task: Task, gold: str) -> dict[str, Any]:
        key = json.dumps([task.environment, dict(task.parameters), gold], sort_keys=True, default=str)
        if key in self._gold:
            self._gold.move_to_end(key)
            return self._gold[key]
        try:
            expected: dict[str, Any] = await environment.rows(gold)
        except ToolError as error:
            raise JudgeError(f"{task.id}: the gold query fails: {error}") from error
        if expected["more"]:
            raise JudgeError(
                f"{task.id}: the gold query returns more than {len(expected['rows'])} rows, too many to compare."
            )
        if len(key) + len(str(expected["rows"])) < CACHED_CHARS:
            self._gold[key] = expected
            if len(self._gold) > CACHE_SIZE:
                self._gold.popitem(last=False)
        return expected


def variants_of(task: Task) -> list[Task]:
    """Return a version of the task for each of its databases: its own, then those of its test suite."""
    suite = task.truth.get("suite", ()) if isinstance(task.truth, dict) else ()
    return [replace(task.public(), parameters={**task.parameters, **changes}) for changes in ({}, *suite)]
