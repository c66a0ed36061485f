"""`sql_ngrams`: how much of the gold query's wording does the submitted query share?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agentgym import Reward
from agentgym.reward import Components, EpisodeView

from .sql_submission import gold_sql, submitted_sql

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+(?:\.\d+)?|<=|>=|<>|!=|\|\||[^\s\w]")


class SqlNgrams(Reward):
    """Outcome component `ngrams`, 0 to 1: Jaccard similarity of the two queries' runs of n tokens. Counts 0.2.

    Tokens are compared without case, texts in quotes as they are. A set, so repeating a run gains nothing.

    Args:
        n: tokens of a run.
    Source: the n-gram similarity of Reasoning-SQL, arXiv:2503.23157.
    """

    weights: Mapping[str, float] = {"ngrams": 0.2}

    def __init__(self, n: int = 2) -> None:
        if n < 1:
            raise ValueError(f"n is {n}: a run has at least one token.")
        self.n = n

    def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the task has no gold query."""
        gold, given = tokens(gold_sql(episode, "sql_ngrams")), tokens(submitted_sql(episode) or "")
        return {"ngrams": jaccard(_runs(gold, self.n), _runs(given, self.n))}


def tokens(sql: str) -> list[str]:
    """A query's words, numbers, signs and quoted texts, without a last semicolon."""
    found = [token if token[0] in "'\"" else token.casefold() for token in _TOKEN.findall(sql)]
    while found and found[-1] == ";":
        found.pop()
    return found


def jaccard(left: frozenset[object] | set[object], right: frozenset[object] | set[object]) -> float:
    """What two sets share of what they hold together; 0 if one is empty."""
    return len(left & right) / len(left | right) if left and right else 0.0


def _runs(words: Sequence[str], n: int) -> set[object]:
    n = min(n, len(words)) or 1
    return {tuple(words[place : place + n]) for place in range(len(words) - n + 1)}
