"""`token_overlap`: exact match and word F1 of an answer against gold answers, as SQuAD measures them.

Source: Rajpurkar et al. 2016, arXiv:1606.05250, section 6.1: articles, punctuation, case and white space are ignored;
the best of several gold answers counts. Yes, no and "no answer" earn no partial F1, as in HotpotQA's evaluation.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

from agentgym import Reward
from agentgym.reward import SUCCESS, Components, EpisodeView

from .final_answer import final_answer, gold_answers

MAX_CHARS = 2_000
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WHOLE = {"yes", "no", "noanswer"}


class TokenOverlap(Reward):
    """Outcome components `success` (exact match, 1.0 or 0.0) and `f1` (0 to 1) of the final answer.

    Gold is `truth["answer"]`, a text or a list of texts, and `truth["answers"]`. An answer of more than 2,000
    characters is no answer: it earns 0. `f1` has weight 0: give it one to train on it.

    Args:
        argument: the final tool's argument that holds the answer.
    """

    weights: Mapping[str, float] = {"f1": 0.0}

    def __init__(self, argument: str = "text") -> None:
        self.argument = argument

    def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the task has no gold answer."""
        gold = gold_answers(episode, "token_overlap")
        given = final_answer(episode, self.argument) or ""
        return {SUCCESS: float(exact_match(given, gold)), "f1": f1(given, gold)}


def normalised(text: str) -> str:
    """Lower case, without punctuation, articles and runs of white space."""
    text = unicodedata.normalize("NFKC", text[: MAX_CHARS + 1]).casefold()
    text = "".join(char for char in text if not unicodedata.category(char).startswith("P"))
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(given: str, gold: Iterable[str]) -> bool:
    """Whether an answer is one of the gold answers after normalising. An empty one never is."""
    answer = normalised(given)
    return bool(answer) and len(given) <= MAX_CHARS and any(answer == normalised(one) for one in gold)


def f1(given: str, gold: Iterable[str]) -> float:
    """The harmonic mean of precision and recall over words, best over the gold answers; 0 to 1."""
    return max((word_f1(given, one) for one in gold), default=0.0)


def word_f1(given: str, gold: str) -> float:
    """F1 of one answer against one gold answer; 0 if either is empty, too long, or one says yes and the other not."""
    left, right = normalised(given), normalised(gold)
    if not left or not right or len(given) > MAX_CHARS:
        return 0.0
    if left != right and (left in _WHOLE or right in _WHOLE):
        return 0.0
    one, two = left.split(), right.split()
    shared = sum((Counter(one) & Counter(two)).values())
    return 2.0 * shared / (len(one) + len(two))
