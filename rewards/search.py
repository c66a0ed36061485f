"""`search`: what the search environments are judged by unless a recipe says otherwise."""

from __future__ import annotations

from agentgym import Combined
from agentgym.reward import SUCCESS, Components, EpisodeView

from .answer_match import AnswerMatch, same_answer
from .citation import Citation
from .evidence import Evidence
from .final_answer import final_answer, gold_answers
from .token_overlap import exact_match


class QuestionAnswered(AnswerMatch):
    """Is the answer `truth["answer"]` or one of `truth["answers"]`? Outcome component `success`, 1.0 or 0.0.

    Compared as `answer_match` does, or else as SQuAD does: without case, punctuation and English articles
    (Rajpurkar et al. 2016, arXiv:1606.05250, sec. 6.1). The whole answer counts: listing guesses matches nothing.
    """

    def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the task has no `truth["answer"]`."""
        gold = gold_answers(episode, "search")
        given = final_answer(episode, self.argument) or ""
        same = any(same_answer(given, one, tolerance=self.tolerance) for one in gold)
        return {SUCCESS: float(same or exact_match(given, gold))}


class SearchReward(Combined):
    """The answer decides (`success`, 1.0); pages read and cited help (0.3, and 0.1 for each half of citation)."""

    def __init__(self) -> None:
        super().__init__(QuestionAnswered(), Evidence(), Citation())
