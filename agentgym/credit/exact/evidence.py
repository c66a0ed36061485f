"""Small decision problems with what scoring, progress estimators, hindsight and replays would say of each path."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable

from agentgym.credit.exact.problems import Problem, ProblemPath
from agentgym.credit.exact.signals import PROBLEMS_WITH_SIGNALS, expected_return


def before(path: ProblemPath, k: int) -> Hashable:
    """Everything known before turn k, the state in it included."""
    return path.steps[:k], path.rewards[:k], path.steps[k][0]


def after(path: ProblemPath, k: int) -> Hashable:
    """Everything known when turn k was played."""
    return path.steps[: k + 1], path.rewards[: k + 1]


class ArbitraryFunction:
    """A number of its own for every key: what any critic might say, right or wrong."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high, self.known = low, high, dict[Hashable, float]()

    def __call__(self, key: Hashable) -> float:
        return self.known.setdefault(key, self.low + (self.high - self.low) * ((0.37 * (len(self.known) + 1)) % 1.0))


def exact_hindsight(problem: Problem) -> Callable[[ProblemPath], list[float]]:
    """The exact log of P(turn k | state, return from there) / P(turn k | state) of a path's turns."""
    chance: defaultdict[Hashable, float] = defaultdict(float)
    for path in problem.paths:
        for k in range(len(path.steps)):
            told, turn = round(path.return_from(k), 9), path.steps[k]
            for key in (
                (before(path, k),),
                (before(path, k), turn),
                (before(path, k), told),
                (before(path, k), turn, told),
            ):
                chance[key] += path.probability

    def of(path: ProblemPath) -> list[float]:
        found = []
        for k in range(len(path.steps)):
            here, told, turn = before(path, k), round(path.return_from(k), 9), path.steps[k]
            found.append(math.log(chance[here, turn, told] * chance[(here,)] / chance[here, told] / chance[here, turn]))
        return found

    return of


def with_evidence(problem: Problem) -> Problem:
    """The problem with potentials, gold log-probs and contributions that are wrong, and exact hindsight and replays."""
    potential, logprob, share, other = (
        ArbitraryFunction(-1, 2),
        ArbitraryFunction(-2, 0),
        ArbitraryFunction(-1, 1),
        ArbitraryFunction(0, 1),
    )
    value = expected_return(problem, before)

    def turns(path: ProblemPath) -> range:
        return range(len(path.steps))

    return problem.with_signals(
        potentials=lambda p: [potential(before(p, k)) for k in turns(p)],
        gold_logprobs=lambda p: [*(logprob(before(p, k)) for k in turns(p)), logprob(after(p, len(p.steps) - 1))],
        contributions=lambda p: [share(after(p, k)) for k in turns(p)],
        hindsight=exact_hindsight(problem),
        continuations=lambda p: [[value(p, k)] for k in turns(p)] + [[]],
        counterfactuals=lambda p: {
            frozenset(k for k in turns(p) if mask >> k & 1): other((p.steps, mask)) for mask in range(2 ** len(p.steps))
        },
        branches=lambda p: [(id(p), k) for k in turns(p)],
    )


PROBLEMS_WITH_EVIDENCE = {name: with_evidence(problem) for name, problem in PROBLEMS_WITH_SIGNALS.items()}
