"""`literal_match`: whether the answer is exactly the gold value, as a Python literal: for predicted outputs."""

from __future__ import annotations

import ast
import warnings
from typing import Any

from agentgym import JudgeError, Reward, Trajectory
from agentgym.reward import SUCCESS, Components

from .final_answer import final_answer, gold_answers

MAX_CHARS = 20_000


class LiteralMatch(Reward):
    """Outcome component `success`: 1.0 if the final answer is the value of `truth["answer"]`, else 0.0.

    Both are parsed as Python literals, such as `{'a': (1, 2)}`, `"it's"`, `-1.5` or `None`; nothing is executed. Types
    count: 1, 1.0 and True are three values, and `[1]` differs from `(1,)`. The order of a dict or a set does not count.
    Unquoted text is not a literal, so it is wrong. `truth["answer"]` is the literal as text, or a list of such texts.

    Args:
        argument: the final tool's argument that holds the answer.
    """

    def __init__(self, argument: str = "text") -> None:
        self.argument = argument

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no gold answer, or if it is not a literal."""
        golds = [literal(gold) for gold in gold_answers(episode, "literal_match")]
        if None in golds:
            raise JudgeError(f"{episode.task.id}: truth['answer'] is not a Python literal. Write text with its quotes.")
        answer = literal(final_answer(episode, self.argument) or "")
        return {SUCCESS: float(answer is not None and answer in golds)}


def literal(text: str) -> tuple[Any, ...] | None:
    """Return a literal in a form that is equal only for equal values and types; None if the text is not a literal."""
    if len(text) > MAX_CHARS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape such as "\\w" in the answer does not matter here
            return _exact(ast.literal_eval(text.strip()))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _exact(value: Any) -> tuple[Any, ...]:
    kind = type(value).__name__
    if isinstance(value, (list, tuple)):
        return (kind, *map(_exact, value))
    if isinstance(value, (set, frozenset)):
        return kind, frozenset(map(_exact, value))
    if isinstance(value, dict):
        return kind, frozenset((_exact(key), _exact(item)) for key, item in value.items())
    return kind, repr(value)
