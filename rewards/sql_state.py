"""`sql_state`: does the database hold at the end what the gold statements would have left, and is the answer right?"""

from __future__ import annotations

import ast
import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from agentgym import Call, JudgeError, Reward, Task, ToolError
from agentgym.reward import SUCCESS, Components, EpisodeView
from agentgym.sandbox import Backend

from .answer_match import same_answer
from .final_answer import final_call
from .judge_world import judge_world

KEPT = 4_096
MAX_ANSWER = 5_000


class SqlState(Reward):
    """Outcome component `success`: 1.0 if the final state is that of the gold statements, and the answers are right.

    The final state is what the tool `finish` told, which only the environment can write: a hash of every table. The
    gold state is found by running `truth["sql"]`, a list of statements (none: nothing may change), in a fresh world
    of the task's kind. `truth["answers"]`, where given, are the values that the call's `answer` must list, in any
    order. An episode that never finished has no success.

    Args:
        backend: makes the judge's sandboxes; a name or a Backend.
    Source: judging by the table's hash: AgentBench's DBBench, Liu et al. 2023, arXiv:2308.03688.
    """

    def __init__(self, *, backend: str | Backend | None = None) -> None:
        self.backend = backend
        self._gold: OrderedDict[str, str] = OrderedDict()

    async def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the gold statements or the judge's world do not work."""
        task, truth = episode.task, episode.task.truth
        if not isinstance(truth, dict) or not isinstance(truth.get("sql"), (list, tuple)):
            raise JudgeError(f"{task.id} has no list truth['sql'], so nothing can be judged by sql_state.")
        if (found := final_call(episode)) is None:
            return {SUCCESS: 0.0}
        call, result = found
        right = "answers" not in truth or _answered(call, truth["answers"])
        told = str(result.content) == f"Finished. State {await self.gold_state(task, truth['sql'])}."
        return {SUCCESS: float(right and told)}

    async def gold_state(self, task: Task, statements: Sequence[str]) -> str:
        """The state that the gold statements leave. Raises: JudgeError."""
        key = json.dumps([task.environment, dict(task.parameters), list(statements)], sort_keys=True, default=str)
        if key in self._gold:
            self._gold.move_to_end(key)
            return self._gold[key]
        async with judge_world(task, "state_after", "sql_state", self.backend) as world:
            await world.reset(task.public(), seed=0)
            try:
                state: str = await world.state_after(statements)
            except ToolError as error:
                raise JudgeError(f"{task.id}: a gold statement does not run: {error}") from error
        self._gold[key] = state
        if len(self._gold) > KEPT:
            self._gold.popitem(last=False)
        return state


def _answered(call: Call, gold: Sequence[Any]) -> bool:
    given = call.arguments.get("answer")
    if not isinstance(given, str) or len(given) > MAX_ANSWER:
        return False
    return same_answers(given, [str(value) for value in gold])


def same_answers(given: str, gold: Sequence[str]) -> bool:
    """Whether a text gives exactly these values, in any order: alone, as a list in brackets, by lines, or by commas."""
    if len(gold) == 1 and same_answer(given, gold[0]):
        return True
    return any(len(values) == len(gold) and _paired(values, gold) for values in _lists(given))


def _lists(text: str) -> list[list[str]]:
    """The ways to read a text as a list."""
    found = [text.split("\n"), text.split(",")]
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return found
    if isinstance(value, (list, tuple)):
        found.append([str(row[0] if isinstance(row, (list, tuple)) and len(row) == 1 else row) for row in value])
    return found


def _paired(values: Sequence[str], gold: Sequence[str]) -> bool:
    waiting = list(gold)
    for value in values:
        partner = next((n for n, other in enumerate(waiting) if same_answer(value, other)), None)
        if partner is None:
            return False
        del waiting[partner]
    return not waiting
