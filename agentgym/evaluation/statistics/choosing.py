"""The success of one episode that is chosen among k of a task: by the most frequent key, or by the highest score."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from agentgym.evaluation.statistics.estimate import Estimate, Outcomes
from agentgym.evaluation.statistics.passes import task_share

Key = str | float | None
"""What an episode is chosen by: a vote for an answer, a score, or nothing."""
MAX_SUBSETS = 2_000
"""Up to this many subsets of k episodes, votes are counted in all of them; otherwise in so many drawn at random."""


def choose_curve(
    outcomes: Outcomes, keys: Sequence[Sequence[Key]], ks: Sequence[int] | None = None, *, level: float = 0.95
) -> dict[int, Estimate]:
    """Return the success of the chosen one of k episodes for several k, each with its interval over tasks.

    Args:
        outcomes: the success of each episode, task by task.
        keys: what the same episodes are chosen by. Texts are votes, of which the most frequent wins; numbers are
            scores, of which the highest wins. An episode without a key is chosen only if no other has one.
        ks: by default 1, 2, 4, 8, ... and the smallest number of episodes of any task.
    Returns: estimates by k, without bias: the mean over all ways to draw k of a task's episodes (votes: over
        `MAX_SUBSETS` of them, drawn with a fixed seed, if there are more). Ties are split evenly.
    Source: votes: Wang et al. 2022, arXiv:2203.11171; the highest of k: Nakano et al. 2021, arXiv:2112.09332, app. I.
    """
    fewest = min(map(len, outcomes), default=0)
    chosen = ks if ks is not None else sorted({*(2**i for i in range(fewest.bit_length())), *([fewest] * bool(fewest))})
    curve = {}
    for k in chosen:
        values = [_expected(success, key, k) for success, key in zip(outcomes, keys, strict=True)]
        curve[k] = task_share(np.array(values, np.float64), level=level)
    return curve


def _expected(success: Sequence[float], keys: Sequence[Key], k: int) -> float:
    if any(isinstance(key, str) for key in keys):
        return _by_votes(success, keys, k)
    return _by_score(success, [-math.inf if key is None else float(key) for key in keys], k)


def _by_score(success: Sequence[float], scores: Sequence[float], k: int) -> float:
    """Return the mean success of the highest-scored of k episodes: exact, from the ranks of all."""
    n, below, expected = len(success), 0, 0.0
    for score in sorted(set(scores)):
        equal = [value for value, own in zip(success, scores, strict=True) if own == score]
        highest = math.comb(below + len(equal), k) - math.comb(below, k)
        expected += highest / math.comb(n, k) * sum(equal) / len(equal)
        below += len(equal)
    return expected


def _by_votes(success: Sequence[float], keys: Sequence[Key], k: int) -> float:
    """Return the mean success of the majority's answer among k episodes."""
    rng, n = np.random.default_rng(0), len(success)
    subsets = combinations(range(n), k) if math.comb(n, k) <= MAX_SUBSETS else None
    drawn = subsets or (rng.choice(n, k, replace=False).tolist() for _ in range(MAX_SUBSETS))
    return float(np.mean([_vote([success[i] for i in each], [keys[i] for i in each]) for each in drawn]))


def _vote(success: Sequence[float], keys: Sequence[Key]) -> float:
    votes = Counter(key for key in keys if key is not None)
    if not votes:
        return sum(success) / len(success)
    most = max(votes.values())
    won: Mapping[Key, list[float]] = {key: [] for key, count in votes.items() if count == most}
    for value, key in zip(success, keys, strict=True):
        if key in won:
            won[key].append(value)
    return sum(sum(values) / len(values) for values in won.values()) / len(won)
