"""`sql_state`: whether the final database equals the gold statements' result, and whether the answer is right."""

from __future__ import annotations

import ast
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import Call, JudgeError, Reward, Task, ToolError, Trajectory
from agentgym.reward import SUCCESS, Components, comparison
from agentgym.sandbox import Backend

from .final_answer import final_call
from .judge_environment import judge_environment

CACHE_SIZE = 4_096
MAX_ANSWER = 5_000


class SqlState(Reward):
    """Outcome component `success`: 1.0 if the final state is that of the gold statements, and the answers are right.

    The final state is the hash of every table in the result of the tool `finish`, which only the environment can write.
    The gold state comes from running `truth["sql"]`, a list of statements (if empty, nothing may change), in a fresh
    environment of the task's kind. `truth["answers"]`, if given, are the values that the argument `answer` of `finish`
    must list, in any order. An episode that never finished is not a success.

    Args:
        backend: creates the judge's sandboxes; a name or a Backend.
        environment_options: options of the judge's environment, which must report states like the agent's environment.
    Source: judging by table hashes: AgentBench's DBBench, Liu et al. 2023, arXiv:2308.03688.
    """

    def __init__(
        self, *, backend: str | Backend | None = None, environment_options: Mapping[str, Any] | None = None
    ) -> None:
        self.backend, self.environment_options = backend, dict(environment_options or {})
        self._gold: OrderedDict[str, str] = OrderedDict()

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the gold statements or the judge's environment do not work.
        """
        task, truth = episode.task, episode.task.truth
        if not isinstance(truth, dict) or not isinstance(truth.get("sql"), (list, tuple)):
            raise JudgeError(f"{task.id} needs truth['sql'] as a list of statements for sql_state.")
        if (final := final_call(episode)) is None:
            return {SUCCESS: 0.0}
        call, result = final
        right = "answers" not in truth or _answered(call, truth["answers"])
        state_matches = str(result.content) == f"Finished. State {await self.gold_state(task, truth['sql'])}."
        return {SUCCESS: float(right and state_matches)}

    async def gold_state(self, task: Task, statements: Sequence[str]) -> str:
        """Return the state after the gold statements. Raises: JudgeError."""
        key = json.dumps([task.environment, dict(task.parameters), list(statements)], sort_keys=True, default=str)
        if key in self._gold:
            self._gold.move_to_end(key)
            return self._gold[key]
        options = self.environment_options
        async with judge_environment(task, "state_after", "sql_state", self.backend, options) as environment:
            await environment.reset(task.public(), seed=0)
            try:
                state: str = await environment.state_after(statements)
            except ToolError as error:
                raise JudgeError(f"{task.id}: a gold statement fails: {error}") from error
        self._gold[key] = state
        if len(self._gold) > CACHE_SIZE:
            self._gold.popitem(last=False)
        return state


def _answered(call: Call, gold: Sequence[Any]) -> bool:
    answer = call.arguments.get("answer")
    if not isinstance(answer, str) or len(answer) > MAX_ANSWER:
        return False
    return same_answers(answer, [str(value) for value in gold])


def same_answers(answer: str, gold: Sequence[str]) -> bool:
    """Return whether a text lists exactly these values, in any order: between line ends or commas, or as a Python
    list.
    """
    if len(gold) == 1 and comparison.same_answer(answer, gold[0]):
        return True
    return any(len(values) == len(gold) and _paired(values, gold) for values in _lists(answer))


def _lists(text: str) -> list[list[str]]:
    """Return every list that a text may mean: its lines, its parts between commas, or the Python list that it is."""
    readings = [text.split("\n"), text.split(",")]
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return readings
    if isinstance(value, (list, tuple)):
        readings.append([str(row[0] if isinstance(row, (list, tuple)) and len(row) == 1 else row) for row in value])
    return readings


def _paired(values: Sequence[str], gold: Sequence[str]) -> bool:
    unmatched = list(gold)
    for value in values:
        partner = next((n for n, candidate in enumerate(unmatched) if comparison.same_answer(value, candidate)), None)
        if partner is None:
            return False
        del unmatched[partner]
    return not unmatched
