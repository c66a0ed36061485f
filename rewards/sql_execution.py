"""`sql_execution`: does the submitted query give what the gold query gives, on every database of the task?"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentgym import JudgeError, Reward, Task, ToolError
from agentgym.reward import SUCCESS, Components, EpisodeView
from agentgym.sandbox import Backend

from .judge_world import judge_world
from .sql_rows import asks_for_order, same_rows
from .sql_submission import gold_sql, submitted_sql

KEPT, KEPT_CHARS = 512, 100_000
SLACK = 10_000
"""Steps that count on both sides of `economy`: among cheap queries none is better."""


@dataclass(slots=True)
class Verdict:
    """Whether the query matched on each database, whether it ran at all, and the engine's steps for both queries."""

    matched: list[bool]
    runs: bool = False
    steps: int | None = None
    gold_steps: int = 0


class SqlExecution(Reward):
    """Outcome components `success` (same rows on every database), `runs` (it ran), `databases` (share), `economy`.

    Both queries run in a fresh world of the task's own kind, on its own engine, that the agent never touched:
    `agentgym.make(task.environment)`, which must have `rows(sql)` (see docs/environments/sql.md). First on the task's
    database, then on each of `truth["suite"]`, a list of parameters that replace the task's, such as
    `[{"seed": 1}, {"seed": 2}]`: a query that is right by luck in one database is wrong in another. Rows are
    compared as multisets, in order only if the gold query orders its outermost SELECT.

    `economy`, given for a success where the engine counts its steps, is the gold query's steps over the submitted
    one's, at most 1: unlike seconds, it is the same on every machine. `runs` counts 0.1 in the scalar, `databases` and
    `economy` 0.

    Args:
        tolerance: relative difference up to which two numbers are equal.
        backend: makes the judge's sandboxes; a name or a Backend.
    Source: Zhong et al. 2020, arXiv:2010.02840 (test suites); the reward for running: Reasoning-SQL, arXiv:2503.23157;
        economy: the efficiency score of BIRD, arXiv:2305.03111, in steps.
    """

    weights: Mapping[str, float] = {"runs": 0.1, "databases": 0.0, "economy": 0.0}

    def __init__(self, *, tolerance: float = 1e-6, backend: str | Backend | None = None) -> None:
        self.tolerance, self.backend = tolerance, backend
        self._gold: OrderedDict[str, dict[str, Any]] = OrderedDict()

    async def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the gold query or the judge's world does not work."""
        gold = gold_sql(episode, "sql_execution")
        given = submitted_sql(episode)
        if given is None:
            return {SUCCESS: 0.0, "runs": 0.0, "databases": 0.0}
        verdict = await self.judge(episode.task, gold, given)
        success = all(verdict.matched)
        components = {SUCCESS: float(success), "runs": float(verdict.runs)}
        components["databases"] = sum(verdict.matched) / len(verdict.matched)
        if success and verdict.steps is not None:
            components["economy"] = min(1.0, (verdict.gold_steps + SLACK) / (verdict.steps + SLACK))
        return components

    async def judge(self, task: Task, gold: str, given: str) -> Verdict:
        """Run both queries on every database, up to the first where they differ. Raises: JudgeError."""
        suite = task.truth.get("suite", ()) if isinstance(task.truth, dict) else ()
        worlds = [replace(task.public(), parameters={**task.parameters, **other}) for other in ({}, *suite)]
        verdict = Verdict([False] * len(worlds))
        async with judge_world(task, "rows", "sql_execution", self.backend) as world:
            for place, public in enumerate(worlds):
                await world.reset(public, seed=0)
                expected = await self._expected(world, public, gold)
                try:
                    found = await world.rows(given)
                except ToolError:
                    break
                verdict.runs = True
                if found["steps"] is not None:
                    verdict.steps = (verdict.steps or 0) + found["steps"]
                    verdict.gold_steps += expected["steps"]
                verdict.matched[place] = not found["more"] and same_rows(
                    expected["rows"], found["rows"], ordered=asks_for_order(gold), tolerance=self.tolerance
                )
                if not verdict.matched[place]:
                    break
        return verdict

    async def _expected(self, world: Any, public: Task, gold: str) -> dict[str, Any]:
        key = json.dumps([public.environment, dict(public.parameters), gold], sort_keys=True, default=str)
        if key in self._gold:
            self._gold.move_to_end(key)
            return self._gold[key]
        try:
            expected: dict[str, Any] = await world.rows(gold)
        except ToolError as error:
            raise JudgeError(f"{public.id}: the gold query does not run: {error}") from error
        if expected["more"]:
            raise JudgeError(f"{public.id}: the gold query gives more than {len(expected['rows'])} rows to compare.")
        if len(key) + len(str(expected["rows"])) < KEPT_CHARS:
            self._gold[key] = expected
            if len(self._gold) > KEPT:
                self._gold.popitem(last=False)
        return expected
