"""Small decision problems whose trajectories carry every signal that can be worked out from the problem itself."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable

from agentgym.credit.exact.problems import Problem, ProblemPath, back_and_forth, flip, lucky_tool, stop_or_go

PROBLEMS = {
    "flip": flip(), "stop_or_go": stop_or_go(), "lucky_tool": lucky_tool(), "back_and_forth": back_and_forth(),
}  # fmt: skip

TOKENS = {"go": 2, "search": 3, "stop": 5, "answer": 4}


def expected_return(
    problem: Problem, key_of: Callable[[ProblemPath, int], Hashable]
) -> Callable[[ProblemPath, int], float]:
    """The expectation of what still comes from a turn on, given its key."""
    total: defaultdict[Hashable, float] = defaultdict(float)
    weight: defaultdict[Hashable, float] = defaultdict(float)
    for path in problem.paths:
        for k in range(len(path.rewards)):
            total[key_of(path, k)] += path.probability * path.return_from(k)
            weight[key_of(path, k)] += path.probability
    return lambda path, k: total[key_of(path, k)] / weight[key_of(path, k)]


def _state(path: ProblemPath, k: int) -> Hashable:
    return k, path.steps[k][0]  # with the turn in it, since how many turns are left matters


def with_exact_signals(problem: Problem) -> Problem:
    """The problem with exact values and action values, state keys, lengths, tool turns and reward components."""
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
    """The problem with a critic that is wrong in every state, by a different amount in each."""
    wrong: dict[Hashable, float] = {}

    def guess(path: ProblemPath, k: int) -> float:
        return wrong.setdefault(_state(path, k), 0.9 - 0.37 * (len(wrong) % 4))

    return problem.with_signals(values=lambda p: [*(guess(p, k) for k in range(len(p.steps))), 0.0])


PROBLEMS_WITH_SIGNALS = {name: with_exact_signals(problem) for name, problem in PROBLEMS.items()}
PROBLEMS_WITH_WRONG_CRITIC = {name: with_wrong_critic(problem) for name, problem in PROBLEMS_WITH_SIGNALS.items()}
