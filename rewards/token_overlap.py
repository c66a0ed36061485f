"""`token_overlap`: exact match and word F1 of an answer against gold answers, as SQuAD measures them.

Source: Rajpurkar et al. 2016, arXiv:1606.05250, section 6.1: articles, punctuation, case and white space are ignored;
the best of several gold answers counts. Yes, no and "no answer" earn no partial F1, as in HotpotQA's evaluation.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

from agentgym import Reward, Trajectory
from agentgym.reward import SUCCESS, Components, fold_text

from .final_answer import final_answer, gold_answers

MAX_CHARS = 2_000
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PARTIAL_CREDIT = {"yes", "no", "noanswer"}


class TokenOverlap(Reward):
    """Outcome components `success` (exact match, 1.0 or 0.0) and `f1` (0 to 1) of the final answer.

    The gold answers are `truth["answer"]`, a text or a list of texts, and `truth["answers"]`. An answer of more than
    2,000 characters earns 0. `f1` has weight 0: give it a weight to train on it.

    Args:
        argument: the final tool's argument that holds the answer.
    """

    weights: Mapping[str, float] = {"f1": 0.0}

    def __init__(self, argument: str = "text") -> None:
        self.argument = argument

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no gold answer."""
        gold = gold_answers(episode, "token_overlap")
        answer = final_answer(episode, self.argument) or ""
        return {SUCCESS: float(exact_match(answer, gold)), "f1": f1(answer, gold)}


def normalised(text: str) -> str:
    """Return the text in lower case, without punctuation, articles and runs of white space."""
    text = fold_text(text[: MAX_CHARS + 1])
    text = "".join(char for char in text if not unicodedata.category(char).startswith("P"))
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(text: str, gold: Iterable[str]) -> bool:
    """Return whether an answer equals one of the gold answers after normalisation. An empty answer never does."""
    answer = normalised(text)
    return bool(answer) and len(text) <= MAX_CHARS and any(answer == normalised(g) for g in gold)


def f1(text: str, gold: Iterable[str]) -> float:
    """Return the harmonic mean of word precision and recall, 0 to 1; the best over all gold answers."""
    return max((word_f1(text, g) for g in gold), default=0.0)


def word_f1(text: str, gold: str) -> float:
    """Return F1 against one gold answer, 0 to 1; 0 if either is empty, if the text is too long, or if they differ and
    one of them is "yes", "no" or "no answer".
    """
    left, right = normalised(text), normalised(gold)
    if not left or not right or len(text) > MAX_CHARS:
        return 0.0
    if left != right and (left in _NO_PARTIAL_CREDIT or right in _NO_PARTIAL_CREDIT):
        return 0.0
    words, gold_words = left.split(), right.split()
    shared = sum((Counter(words) & Counter(gold_words)).values())
    return 2.0 * shared / (len(words) + len(gold_words))
