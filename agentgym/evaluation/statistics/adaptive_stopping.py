"""AdaStop: train more seeds only while it is unclear which agent is better, with a controlled error rate.

Scores come in batches ("interims") of N seeds per agent. After each, a group-sequential permutation test decides as
many pairs as it can. The family-wise error over all pairs and interims is at most alpha.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import EvaluationError

Verdict = Literal["better", "worse", "equal", "more seeds"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on one pair of agents.

    Attributes:
        verdict: how the first agent compares with the second. `equal`: no difference found in all planned interims;
            `more seeds`: no difference found yet, and another interim is left.
        interim: the interim of the decision, from 1; 0 while undecided.
    """

    first: str
    second: str
    verdict: Verdict
    interim: int


def adastop(
    scores: Mapping[str, Sequence[Sequence[float]]],
    *,
    interims: int,
    alpha: float = 0.05,
    permutations: int = 10_000,
    seed: int = 0,
) -> list[Decision]:
    """Decide every pair of agents, or report that it needs more seeds.

    Args:
        scores: per agent, the interims played so far, each with N scores of N new seeds; N is the same for all. An
            agent whose pairs are all decided may stop: its list may be shorter.
        interims: K, the planned number of interims; fixed before looking at the first.
        alpha: family-wise error: the chance that any pair of equal agents is declared different.
        permutations: number of random permutations from which each interim's boundary is computed.
    Returns: one decision per pair, in order of the agents.
    Raises: EvaluationError for unequal interims or too few scores.
    Source: Mathieu et al. 2023, arXiv:2306.10882, algorithm 1: up to interim k, at most the share alpha k / K of all
        permutations may have crossed a boundary; each boundary is taken over those that crossed none before. The test
        steps down over the pairs as in the paper.
    """
    names = list(scores)
    size = _check(scores, interims, alpha)
    rng = np.random.default_rng(seed)
    pairs = list(combinations(names, 2))
    decided: dict[tuple[str, str], Decision] = {}
    alive = np.ones(permutations, bool)  # permutations that crossed no boundary in an earlier interim
    sums = {pair: np.zeros(permutations) for pair in pairs}  # the first entry is the observed order
    for k in range(max(map(len, scores.values()), default=0)):
        open_pairs = [p for p in pairs if p not in decided and all(len(scores[name]) > k for name in p)]
        order = np.argsort(rng.random((permutations, 2 * size)), axis=1)
        order[0] = np.arange(2 * size)  # the observed order counts as a permutation, which makes the error rate exact
        signs = np.where(order < size, 1.0, -1.0)  # which of the 2N scores are counted as the first agent's
        for first, second in open_pairs:
            both = np.concatenate([scores[first][k], scores[second][k]]).astype(np.float64)
            sums[first, second] += signs @ both
        crossed = int((~alive).sum())
        allowed = int(np.floor(alpha * (k + 1) / interims * permutations)) - crossed
        boundary = np.inf
        while open_pairs:
            extremes = np.max([np.abs(sums[pair]) for pair in open_pairs], axis=0)
            boundary = _boundary(extremes[alive], allowed)
            pair = max(open_pairs, key=lambda candidate: abs(sums[candidate][0]))
            if abs(sums[pair][0]) <= boundary:
                break
            decided[pair] = Decision(*pair, "better" if sums[pair][0] > 0 else "worse", k + 1)
            open_pairs.remove(pair)
        if open_pairs:
            alive &= np.max([np.abs(sums[pair]) for pair in open_pairs], axis=0) <= boundary
    return [decided.get(pair) or _undecided(pair, scores, interims) for pair in pairs]


def _boundary(extremes: NDArray[np.float64], allowed: int) -> float:
    """Return the smallest value that at most `allowed` permutations exceed."""
    if allowed <= 0:
        return float("inf")
    if allowed >= extremes.size:
        return -1.0
    return float(np.partition(extremes, extremes.size - allowed - 1)[extremes.size - allowed - 1]) + 1e-9


def _undecided(pair: tuple[str, str], scores: Mapping[str, Sequence[Sequence[float]]], interims: int) -> Decision:
    over = min(len(scores[name]) for name in pair) >= interims
    return Decision(*pair, "equal" if over else "more seeds", interims if over else 0)


def _check(scores: Mapping[str, Sequence[Sequence[float]]], interims: int, alpha: float) -> int:
    if len(scores) < 2 or not all(scores.values()):
        raise EvaluationError(
            "AdaStop needs at least two agents, each with the scores of at least one interim analysis."
        )
    sizes = {len(interim) for interims in scores.values() for interim in interims}
    if len(sizes) != 1 or min(sizes) < 2:
        raise EvaluationError(
            f"The interims have {sorted(sizes)} scores. Give the same number, at least 2, in every interim."
        )
    if (most := max(map(len, scores.values()))) > interims or not 0 < alpha < 1:
        raise EvaluationError(
            f"interims = {interims} and alpha = {alpha} are not valid after {most} interims: interims, planned "
            f"before the first, must be at least {most}, and alpha between 0 and 1."
        )
    return sizes.pop()
