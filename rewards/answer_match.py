"""`answer_match`: whether the agent's answer is the gold answer. Outcome component `success`, 1.0 or 0.0."""

from __future__ import annotations

from agentgym import Reward, Trajectory
from agentgym.reward import SUCCESS, Components, comparison

from .final_answer import final_answer, gold_answers


class AnswerMatch(Reward):
    """Compares the whole answer with `truth["answer"]`; listing several candidates matches nothing.

    If several answers are right, each of them succeeds: `truth["answer"]` may be a list, and `truth["answers"]` lists
    further ones.

    The answer is the text argument of the first final call that succeeded. Without such a call it is the text of the
    last message, if that has no calls and ended the episode. Text is compared folded (`agentgym.reward.fold_text`),
    without outer quotes and a final full stop; numbers by value, so that `$1,184.50` equals `1184.5`.

    Args:
        argument: the final tool's argument that holds the answer.
        tolerance: relative difference up to which two numbers are equal, unless both are whole.
    """

    def __init__(self, argument: str = "text", tolerance: float = 1e-9) -> None:
        self.argument, self.tolerance = argument, tolerance

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no `truth["answer"]`."""
        gold = gold_answers(episode, "answer_match")
        answer = final_answer(episode, self.argument)
        right = answer is not None and any(
            comparison.same_answer(answer, text, tolerance=self.tolerance) for text in gold
        )
        return {SUCCESS: float(right)}
