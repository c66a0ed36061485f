"""Every tree of trajectories that branching can produce in a small decision problem, with its probability.

A tree has `fan[0]` first turns, `fan[1]` second turns after each of them that goes on, and so on. All turns are sampled
independently. Below the last entry of `fan` nothing branches.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

import numpy as np

from agentgym.credit import Estimator, Group
from agentgym.testing.exact.problems import Problem, ProblemPath
from agentgym.testing.exact.signals import after

Grown = tuple[tuple[ProblemPath, tuple[int, ...]], ...]
"""Leaves: a path, and which child was taken at each turn."""


def trees(problem: Problem, fan: Sequence[int]) -> list[tuple[float, Grown]]:
    """Every possible tree with its probability; trees that differ only in the order of children are merged."""
    return list(_families(list(problem.paths), 0, fan))


def _families(paths: list[ProblemPath], k: int, fan: Sequence[int]) -> Iterator[tuple[float, Grown]]:
    """Yield the possible children of a node, given the paths that are still possible."""
    total = sum(path.probability for path in paths)
    turns: defaultdict[object, list[ProblemPath]] = defaultdict(list)
    for path in paths:
        ended = len(path.steps) == k + 1
        turns[after(path, k), ended, path.outcome if ended else None].append(path)
    subtrees: list[tuple[float, Grown]] = []
    for rest in turns.values():
        chance = sum(path.probability for path in rest) / total
        if len(rest[0].steps) == k + 1:
            subtrees.append((chance, ((rest[0], ()),)))
        else:
            subtrees += [(chance * p, grown) for p, grown in _families(rest, k + 1, fan)]
    children = fan[k] if k < len(fan) else 1
    for members in combinations_with_replacement(range(len(subtrees)), children):
        ways = math.factorial(children)
        for count in Counter(members).values():
            ways //= math.factorial(count)
        grown = [
            (path, (child, *children_taken))
            for child, m in enumerate(members)
            for path, children_taken in subtrees[m][1]
        ]
        yield ways * math.prod(subtrees[m][0] for m in members), tuple(grown)


def group_of(grown: Grown) -> Group:
    """Return the leaves as complete trajectories; turns that they share have the same label."""
    return Group.from_arrays(
        outcomes=[path.outcome for path, _ in grown],
        turn_rewards=[path.rewards for path, _ in grown],
        branches=[[children_taken[: k + 1] for k in range(len(children_taken))] for _, children_taken in grown],
    )


def estimated_gradient(problem: Problem, chosen: Estimator, fan: Sequence[int]) -> np.ndarray:
    """[P] E[(1/N) sum_ik A_ik grad log pi] over every tree, N its leaves."""
    total = np.zeros(problem.paths[0].score.shape[1])
    for probability, grown in trees(problem, fan):
        for (path, _), advantages in zip(grown, chosen(group_of(grown)), strict=True):
            total += probability / len(grown) * (advantages @ path.score)
    return total
