"""How far the mean gradient that an estimator makes is from the true one, by exact sums.

Distance of E[(1/N) sum_ik A_ik grad log pi] from the gradient of the expected outcome and turn rewards, in units of
its length, over every possible group of N trajectories of small decision problems; for estimators of branches, over
every tree with N first turns and two second turns each. The weights that an estimator gives to outcome and turn
rewards are part of what is to be maximised. Critics, gold answers, potentials and shares are wrong on
purpose, as they are in practice; hindsight and continuations are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from agentgym.credit.contract import Estimator
from agentgym.credit.exact.evidence import with_evidence
from agentgym.credit.exact.problems import Problem, ProblemPath
from agentgym.credit.exact.signals import PROBLEMS_WITH_WRONG_CRITIC
from agentgym.credit.exact.trees import estimated_gradient

SIZES = (2, 3, 4)
EXACT = 1e-9
_MANY_PATHS = 12  # of a problem: its groups of four are too many
_FEW_PATHS = 9  # its trees may branch twice


@dataclass(frozen=True, slots=True)
class GradientBias:
    """What was found on one problem with groups of one size.

    Attributes:
        error: distance in units of the true gradient's length. `cosine`: of the angle between the two.
    """

    problem: str
    size: int
    error: float
    cosine: float


@cache
def all_problems() -> dict[str, Problem]:
    """The four problems with every signal. Long attempts ran out of turns; the policy grows surer from turn to turn."""
    return {
        name: with_tokens(with_evidence(problem)).with_signals(
            action_keys=lambda p: [action for _, action in p.steps],
            stop_reasons=lambda p: "max_turns" if len(p.steps) == 3 else "answered",
            log_ratios=lambda p: [[0.0]] * len(p.steps),
            entropies=lambda p: [1.0 / (k + 1) for k in range(len(p.steps))],
        )
        for name, problem in PROBLEMS_WITH_WRONG_CRITIC.items()
    }


def with_tokens(problem: Problem) -> Problem:
    """Two tokens a turn: the value before it, and what is expected once the turn is known."""

    def values(path: ProblemPath) -> list[list[float]]:
        pairs = zip(path.signals["values"], path.signals["action_values"], strict=False)
        return [list(pair) for pair in pairs]

    return problem.with_signals(token_values=values)


def bias_of(chosen: Estimator, sizes: Sequence[int] = SIZES) -> list[GradientBias]:
    """The bias of an estimator on every problem, for every group size (not for 4 on the largest problem).

    Raises: MissingSignalError for a signal that the problems do not give; what the estimator raises.
    """
    found = []
    set_to = chosen.unwrapped.resolved_options
    weights = {name: set_to[name] for name in ("outcome_weight", "turn_weight") if name in set_to}
    for name, problem in all_problems().items():
        true = problem.true_gradient(**weights)
        for size in sizes:
            if size > 3 and len(problem.paths) > _MANY_PATHS:
                continue
            if "branches" in chosen.requires:
                twice = len(problem.paths) < _FEW_PATHS and size < 4
                got = estimated_gradient(problem, chosen, (size, 2) if twice else (size,))
            else:
                got = problem.estimated_gradient(chosen, size)
            length = float(np.linalg.norm(true)) or 1.0  # nothing to maximise: then in reward units
            lengths = length * float(np.linalg.norm(got))
            cosine = float(got @ true) / lengths if lengths > 0 else 0.0
            error = float(np.linalg.norm(got - true)) / length
            found.append(GradientBias(name, size, 0.0 if error < EXACT else error, cosine))
    return found
