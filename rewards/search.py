"""`search`: what the search environments are judged by unless a recipe says otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym import Combined, JudgeError
from agentgym.reward import SUCCESS, Components, EpisodeView

from .answer_match import AnswerMatch, same_answer
from .citation import Citation
from .evidence import Evidence
from .token_overlap import exact_match


class QuestionAnswered(AnswerMatch):
    """Is the answer `truth["answer"]` or one of `truth["answers"]`? Outcome component `success`, 1.0 or 0.0.

    Compared as `answer_match` does, or else as SQuAD does: without case, punctuation and English articles
    (Rajpurkar et al. 2016, arXiv:1606.05250, sec. 6.1). The whole answer counts: listing guesses matches nothing.
    """

    def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the task has no `truth["answer"]`."""
        truth = episode.task.truth
        if not isinstance(truth, Mapping) or "answer" not in truth:
            raise JudgeError(f"{episode.task.id} has no truth['answer'], so no answer to it can be judged.")
        given = self.answer_of(episode)
        gold = [str(one) for one in (truth["answer"], *truth.get("answers", ()))]
        return {
            SUCCESS: float(
                given is not None and (exact_match(given, gold) or any(same_answer(given, one) for one in gold))
            )
        }


class SearchReward(Combined):
    """The answer decides (`success`, 1.0); pages read and cited help (0.3, and 0.1 for each half of citation)."""

    def __init__(self) -> None:
        super().__init__(QuestionAnswered(), Evidence(), Citation())
