"""`sql_ngrams`: how many token n-grams the submitted query shares with the gold query."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agentgym import Reward, Trajectory
from agentgym.reward import Components

from .sql_submission import gold_sql, submitted_sql

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+(?:\.\d+)?|<=|>=|<>|!=|\|\||[^\s\w]")


class SqlNgrams(Reward):
    """Outcome component `ngrams`, 0 to 1: Jaccard similarity of the two queries' n-grams of tokens. Weight 0.2.

    Tokens are compared without case, quoted text exactly. N-grams are compared as sets, so repetition gains nothing.

    Args:
        n: the number of tokens in an n-gram.
    Source: the n-gram similarity of Reasoning-SQL, arXiv:2503.23157.
    """

    weights: Mapping[str, float] = {"ngrams": 0.2}

    def __init__(self, n: int = 2) -> None:
        if n < 1:
            raise ValueError(f"n = {n} is not valid: an n-gram has at least one token.")
        self.n = n

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no gold query."""
        gold, submitted = tokens(gold_sql(episode, "sql_ngrams")), tokens(submitted_sql(episode) or "")
        return {"ngrams": jaccard(_ngrams(gold, self.n), _ngrams(submitted, self.n))}


def tokens(sql: str) -> list[str]:
    """Return a query's words, numbers, signs and quoted texts, without a final semicolon."""
    parts = [token if token[0] in "'\"" else token.casefold() for token in _TOKEN.findall(sql)]
    while parts and parts[-1] == ";":
        parts.pop()
    return parts


def jaccard(left: frozenset[object] | set[object], right: frozenset[object] | set[object]) -> float:
    """Return the size of the intersection divided by the union's; 0 if either set is empty."""
    return len(left & right) / len(left | right) if left and right else 0.0


def _ngrams(words: Sequence[str], n: int) -> set[object]:
    n = min(n, len(words)) or 1
    return {tuple(words[start : start + n]) for start in range(len(words) - n + 1)}
