"""The distance between the mean gradient of an estimator and the true gradient, by exact sums.

The distance of E[(1/N) sum_ik A_ik grad log pi] from the gradient of the expected outcome and turn rewards, in units of
the length of the latter. The expectation is over every possible group of N trajectories of small decision problems;
for estimators that need branches, over every tree with N first turns and two second turns each. The objective has the
weights of outcome and turn rewards that the estimator uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from agentgym.credit.contract import Estimator
from agentgym.testing.exact.problems import Problem, ProblemPath
from agentgym.testing.exact.signals import PROBLEMS_WITH_WRONG_CRITIC, with_evidence
from agentgym.testing.exact.trees import estimated_gradient

SIZES = (2, 3, 4)
EXACT = 1e-9
_MANY_PATHS = 12  # a problem with more paths has too many groups of four
_FEW_PATHS = 9  # the trees of a problem with fewer paths branch twice


@dataclass(frozen=True, slots=True)
class GradientBias:
    """The bias on one problem with groups of one size.

    Attributes:
        error: distance between the two gradients in units of the true gradient's length.
        cosine: of the angle between the two gradients.
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


@cache  # as the groups of a problem are: what is computed for them serves every estimator
def with_tokens(problem: Problem) -> Problem:
    """Two token values per turn: the value before it, and its action value."""

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
            length = float(np.linalg.norm(exact)) or 1.0  # if the true gradient is 0: in reward units
            lengths = length * float(np.linalg.norm(estimated))
            cosine = float(estimated @ exact) / lengths if lengths > 0 else 0.0
            error = float(np.linalg.norm(estimated - exact)) / length
            biases.append(GradientBias(name, size, 0.0 if error < EXACT else error, cosine))
    return biases
