"""`answer_match`: whether the agent's answer is the gold answer. Outcome component `success`, 1.0 or 0.0."""

from __future__ import annotations

import math
import re
from typing import Any

from agentgym import JudgeError, Reward, Trajectory
from agentgym.reward import SUCCESS, Components

from .final_answer import final_answer

_NUMBER = re.compile(r"[+-]?[$€£]?\d{1,3}(,\d{3})+(\.\d+)?|[+-]?[$€£]?\d+(\.\d*)?([eE][+-]?\d{1,3})?", re.ASCII)


class AnswerMatch(Reward):
    """Compares the whole answer with `truth["answer"]`; listing several candidates matches nothing.

    The answer is the text argument of the first final call that succeeded; where there is none, the text of
    a last message without calls, if that ended the episode. Text is compared without case, outer spaces,
    quotes and a last full stop; numbers by value, so that `$1,184.50` is `1184.5`.

    Args:
        argument: the final tool's argument that holds the answer.
        tolerance: relative difference up to which two numbers are the same.
    """

    def __init__(self, argument: str = "text", tolerance: float = 1e-6) -> None:
        self.argument, self.tolerance = argument, tolerance

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no `truth["answer"]`."""
        truth = episode.task.truth
        if not isinstance(truth, dict) or "answer" not in truth:
            raise JudgeError(f"{episode.task.id} has no truth['answer'], so no answer can be judged by answer_match.")
        answer = final_answer(episode, self.argument)
        return {SUCCESS: float(answer is not None and same_answer(answer, truth["answer"], tolerance=self.tolerance))}


def same_answer(answer: Any, gold: Any, *, tolerance: float = 1e-6) -> bool:
    """Whether two answers are equal. An empty answer equals nothing."""
    left, right = normalised(str(answer)), normalised(str(gold))
    if not left or not right:
        return False
    numbers = as_number(left), as_number(right)
    if numbers[0] is not None and numbers[1] is not None:
        return math.isclose(numbers[0], numbers[1], rel_tol=tolerance, abs_tol=1e-9)
    return left == right


def normalised(text: str) -> str:
    """Return the text in lower case, without runs of spaces, outer quotes and a final full stop."""
    text = " ".join(text.casefold().split()).removesuffix(".")
    while len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"`":
        text = text[1:-1].strip()
    return text


def as_number(text: str) -> float | None:
    """Return the value of a plain number; None for anything else (a date, a phone number, inf, nan)."""
    if len(text) > 40 or not _NUMBER.fullmatch(text):
        return None
    value = float(re.sub(r"[$€£,]", "", text))
    return value if math.isfinite(value) else None
