"""`search`: the default reward of the search environments."""

from __future__ import annotations

import re
from fractions import Fraction

from agentgym import Combined, Trajectory
from agentgym.reward import SUCCESS, Components, comparison, fold_text

from .answer_match import AnswerMatch
from .citation import Citation
from .evidence import Evidence
from .final_answer import final_answer, gold_answers
from .token_overlap import exact_match

_NUMBER = re.compile(
    r"(?:(?<![\w.])[+-]|(?:^|(?<=\())[+-] )?"
    r"(?:\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d+(?:\.\d+)?|(?<![\w.])\.\d+)(?:e[+-]?\d{1,3}(?!\w))?",
    re.ASCII,
)
"""A number with its sign. A + or - is a sign only at the beginning of a word: 1914-1918 contains 1914 and 1918."""
_SHARP = re.compile(r"(?<=[a-z])#")
"""A # after a letter: it belongs to the name, as in C#."""


class QuestionAnswered(AnswerMatch):
    """Outcome component `success`: 1.0 if the answer is `truth["answer"]` or one of `truth["answers"]`, else 0.0.

    An answer is right if the rules of `answer_match` or those of SQuAD find it equal. SQuAD's ignore case, punctuation
    and English articles (Rajpurkar et al. 2016, arXiv:1606.05250, sec. 6.1); here they do not ignore the signs and
    decimal points of numbers. The whole answer is compared, so a list of guesses matches nothing.
    """

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no `truth["answer"]`."""
        gold = gold_answers(episode, "search")
        answer = final_answer(episode, self.argument) or ""
        same = any(comparison.same_answer(answer, g, tolerance=self.tolerance) for g in gold)
        alike = any(exact_match(answer, [g]) and _marks_in(answer) == _marks_in(g) for g in gold)
        return {SUCCESS: float(same or alike)}


def _marks_in(text: str) -> tuple[list[Fraction | None], int]:
    """Return the numbers in a text in order, with their signs, and the number of # signs that follow letters."""
    folded = fold_text(text)
    numbers = [comparison.read_number(number[0].replace(" ", "")) for number in _NUMBER.finditer(folded)]
    return numbers, len(_SHARP.findall(folded))


class SearchReward(Combined):
    """The answer (`success`, 1.0), with small rewards for gold pages read (0.3) and cited (0.1 for each measure)."""

    def __init__(self) -> None:
        super().__init__(QuestionAnswered(), Evidence(), Citation())
