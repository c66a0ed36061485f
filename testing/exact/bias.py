"""The distance between the mean gradient of an estimator and the true gradient, by exact sums.

The bias is the distance between E[(1/N) sum_ik A_ik grad log pi] and the gradient of the expected outcome and turn
rewards, in units of that gradient's length. The expectation is over every possible group of N trajectories of small
decision problems; for estimators that need branches, over every tree with N first turns and two second turns each. The
objective weights outcome and turn rewards as the estimator does.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement

import numpy as np

from agentgym.credit import Estimator, Group

from .problems import Problem, ProblemPath
from .signals import PROBLEMS_WITH_WRONG_CRITIC, after, with_evidence

Grown = tuple[tuple[ProblemPath, tuple[int, ...]], ...]
"""The leaves of a tree: each a path, and the index of the child taken at each turn."""


def trees(problem: Problem, fan: Sequence[int]) -> list[tuple[float, Grown]]:
    """Return every possible tree with its probability; trees that differ only in the order of children are merged.

    `fan`: how many children the nodes of each turn have; 1 for later turns.
    """
    return list(_families(list(problem.paths), 0, fan))


def _families(paths: list[ProblemPath], k: int, fan: Sequence[int]) -> Iterator[tuple[float, Grown]]:
    """Yield each possible set of children of a node at turn k with its probability, given the paths still possible."""
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
    """Return the leaves as complete trajectories; shared turns have the same label."""
    return Group.from_arrays(
        outcomes=[path.outcome for path, _ in grown],
        turn_rewards=[path.rewards for path, _ in grown],
        branches=[[children_taken[: k + 1] for k in range(len(children_taken))] for _, children_taken in grown],
    )


def estimated_gradient(problem: Problem, chosen: Estimator, fan: Sequence[int]) -> np.ndarray:
    """Return [P] E[(1/N) sum_ik A_ik grad log pi] over every tree with N leaves."""
    total = np.zeros(problem.paths[0].score.shape[1])
    for probability, grown in trees(problem, fan):
        for (path, _), advantages in zip(grown, chosen(group_of(grown)), strict=True):
            total += probability / len(grown) * (advantages @ path.score)
    return total


SIZES = (2, 3, 4)
EXACT = 1e-9
_MANY_PATHS = 12  # with more paths there are too many groups of four to enumerate
_FEW_PATHS = 9  # with fewer paths, trees that branch twice are enumerated too


@dataclass(frozen=True, slots=True)
class GradientBias:
    """The bias on one problem for one group size.

    Attributes:
        error: distance between the two gradients in units of the true gradient's length.
        cosine: the cosine of the angle between the two gradients.
    """

    problem: str
    size: int
    error: float
    cosine: float


@cache
def all_problems() -> dict[str, Problem]:
    """Return the four problems with every signal. Long attempts hit the turn limit; entropy falls from turn to turn."""
    return {
        name: with_tokens(with_evidence(problem)).with_signals(
            action_keys=lambda p: [action for _, action in p.steps],
            stop_reasons=lambda p: "max_turns" if len(p.steps) == 3 else "answered",
            log_ratios=lambda p: [[0.0]] * len(p.steps),
            entropies=lambda p: [1.0 / (k + 1) for k in range(len(p.steps))],
        )
        for name, problem in PROBLEMS_WITH_WRONG_CRITIC.items()
    }


@cache  # cached like a problem's groups, because every estimator uses it
def with_tokens(problem: Problem) -> Problem:
    """Return the problem with two tokens per turn; their values are the turn's state value and action value."""

    def values(path: ProblemPath) -> list[list[float]]:
        pairs = zip(path.signals["values"], path.signals["action_values"], strict=False)
        return [list(pair) for pair in pairs]

    return problem.with_signals(token_values=values)


def bias_of(chosen: Estimator, sizes: Sequence[int] = SIZES) -> list[GradientBias]:
    """Return the bias of an estimator on every problem, for every group size (not for 4 on the largest problem).

    Raises: MissingSignalError for a signal that the problems do not have; what the estimator raises.
    """
    biases = []
    options = chosen.unwrapped.resolved_options
    weights = {name: options[name] for name in ("outcome_weight", "turn_weight") if name in options}
    for name, problem in all_problems().items():
        exact = problem.true_gradient(**weights)
        for size in sizes:
            if size > 3 and len(problem.paths) > _MANY_PATHS:
                continue
            if "branches" in chosen.requires:
                twice = len(problem.paths) < _FEW_PATHS and size < 4
                estimated = estimated_gradient(problem, chosen, (size, 2) if twice else (size,))
            else:
                estimated = problem.estimated_gradient(chosen, size)
            length = float(np.linalg.norm(exact)) or 1.0  # if the true gradient is 0, the bias is in reward units
            lengths = length * float(np.linalg.norm(estimated))
            cosine = float(estimated @ exact) / lengths if lengths > 0 else 0.0
            error = float(np.linalg.norm(estimated - exact)) / length
            biases.append(GradientBias(name, size, 0.0 if error < EXACT else error, cosine))
    return biases
