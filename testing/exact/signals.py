"""The small decision problems with every signal that an estimator can need.

Values, action values, hindsight and continuations are exact. Potentials, gold log-probs and contributions are wrong on
purpose, and `with_wrong_critic` makes the values wrong too, as signals are in practice.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable

from .problems import Problem, ProblemPath, back_and_forth, flip, lucky_tool, stop_or_go

PROBLEMS = {
    "flip": flip(),
    "stop_or_go": stop_or_go(),
    "lucky_tool": lucky_tool(),
    "back_and_forth": back_and_forth(),
}

TOKENS = {"go": 2, "search": 3, "stop": 5, "answer": 4}


def expected_return(
    problem: Problem, key_of: Callable[[ProblemPath, int], Hashable]
) -> Callable[[ProblemPath, int], float]:
    """Return a function of a path and a turn k: the mean return from k on, over all turns with the same key."""
    total: defaultdict[Hashable, float] = defaultdict(float)
    weight: defaultdict[Hashable, float] = defaultdict(float)
    for path in problem.paths:
        for k in range(len(path.rewards)):
            total[key_of(path, k)] += path.probability * path.return_from(k)
            weight[key_of(path, k)] += path.probability
    return lambda path, k: total[key_of(path, k)] / weight[key_of(path, k)]


def _state(path: ProblemPath, k: int) -> Hashable:
    return k, path.steps[k][0]  # with the turn index, because the number of remaining turns matters


def with_exact_signals(problem: Problem) -> Problem:
    """Return the problem with exact values and action values, state keys, lengths, tool turns and reward components."""
    value = expected_return(problem, _state)
    action_value = expected_return(problem, lambda path, k: (k, path.steps[k]))
    return problem.with_signals(
        state_keys=lambda p: [state for state, _ in p.steps],
        action_keys=lambda p: [action for _, action in p.steps],
        lengths=lambda p: [TOKENS[action] for _, action in p.steps],
        score_norms=lambda p: [float((row**2).sum()) for row in p.score],
        tool_turn=lambda p: [action in ("go", "search") for _, action in p.steps],
        values=lambda p: [*(value(p, k) for k in range(len(p.steps))), 0.0],
        action_values=lambda p: [action_value(p, k) for k in range(len(p.steps))],
        components=lambda p: {
            "gain": [r if math.isnan(r) else max(r, 0.0) for r in p.rewards],
            "cost": [r if math.isnan(r) else min(r, 0.0) for r in p.rewards],
        },
        outcome_components=lambda p: {"success": p.outcome},
    )


def with_wrong_critic(problem: Problem) -> Problem:
    """Return the problem with a critic that is wrong by a different amount in each state."""
    wrong: dict[Hashable, float] = {}

    def guess(path: ProblemPath, k: int) -> float:
        return wrong.setdefault(_state(path, k), 0.9 - 0.37 * (len(wrong) % 4))

    return problem.with_signals(values=lambda p: [*(guess(p, k) for k in range(len(p.steps))), 0.0])


PROBLEMS_WITH_SIGNALS = {name: with_exact_signals(problem) for name, problem in PROBLEMS.items()}
PROBLEMS_WITH_WRONG_CRITIC = {name: with_wrong_critic(problem) for name, problem in PROBLEMS_WITH_SIGNALS.items()}


def before(path: ProblemPath, k: int) -> Hashable:
    """Return everything known before turn k, including the state in which it is taken."""
    return path.steps[:k], path.rewards[:k], path.steps[k][0]


def after(path: ProblemPath, k: int) -> Hashable:
    """Return everything known after turn k."""
    return path.steps[: k + 1], path.rewards[: k + 1]


class ArbitraryFunction:
    """Returns a different number for every key, like an arbitrary critic."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high, self.known = low, high, dict[Hashable, float]()

    def __call__(self, key: Hashable) -> float:
        return self.known.setdefault(key, self.low + (self.high - self.low) * ((0.37 * (len(self.known) + 1)) % 1.0))


def exact_hindsight(problem: Problem) -> Callable[[ProblemPath], list[float]]:
    """Return a function of a path: for each turn k, log(P(turn k | state, return from k on) / P(turn k | state))."""
    chance: defaultdict[Hashable, float] = defaultdict(float)
    for path in problem.paths:
        for k in range(len(path.steps)):
            rest, turn = round(path.return_from(k), 9), path.steps[k]
            for key in (
                (before(path, k),),
                (before(path, k), turn),
                (before(path, k), rest),
                (before(path, k), turn, rest),
            ):
                chance[key] += path.probability

    def of(path: ProblemPath) -> list[float]:
        log_ratios = []
        for k in range(len(path.steps)):
            state, rest, turn = before(path, k), round(path.return_from(k), 9), path.steps[k]
            ratio = chance[state, turn, rest] * chance[(state,)] / chance[state, rest] / chance[state, turn]
            log_ratios.append(math.log(ratio))
        return log_ratios

    return of


def with_evidence(problem: Problem) -> Problem:
    """Return the problem with wrong potentials, gold log-probs and contributions, exact hindsight and replays."""
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
