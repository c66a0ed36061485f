"""What a tighter budget would have cost: success among the episodes that kept to it."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.errors import EvaluationError
from agentgym.evaluation.statistics.estimate import Estimate, Outcomes
from agentgym.evaluation.statistics.proportion import success_rate


def solved_within(
    outcomes: Outcomes, spent: Sequence[Sequence[float]], budgets: Sequence[float], *, level: float = 0.95
) -> dict[float, Estimate]:
    """Success if an episode that spent more than a budget counted as unsolved: score@turn-k for turns.

    The agent was not told of the budget. One that is told may hurry, and do better.
    Args:
        spent: of every sample of every task: turns, calls or tokens.
        budgets: in the same unit.
    Returns: by budget.
    Raises: EvaluationError if `spent` has another shape than `outcomes`.
    """
    if [len(o) for o in outcomes] != [len(s) for s in spent]:
        raise EvaluationError("What was spent does not fit the outcomes: one number for every sample of every task.")
    estimates = {}
    for budget in budgets:
        within = [
            [v if used <= budget else 0.0 for v, used in zip(o, s, strict=True)]
            for o, s in zip(outcomes, spent, strict=True)
        ]
        estimates[budget] = success_rate(within, level=level)
    return estimates
