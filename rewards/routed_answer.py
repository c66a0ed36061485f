"""`routed_answer`: the right answer, minus its cost. Outcome components `success` and `spent_cost`."""

from __future__ import annotations

from agentgym import Combined, Gate
from agentgym.reward import SUCCESS

from .answer_match import AnswerMatch
from .spent_cost import SpentCost


class RoutedAnswer(Combined):
    """`answer_match` and, for right answers only, `spent_cost`.

    A right answer earns 1 - weight * min(1, cost / budget).

    Args:
        weight: weight of the cost, at least 0; if it is large, the best policy asks no model.
        budget: the cost at which `spent_cost` reaches -1.
    Raises: ValueError for a weight below 0 or a budget that is not above 0.
    Source: Router-R1, Zhang et al. 2025, arXiv:2506.09033.
    """

    def __init__(self, weight: float = 0.5, budget: float = 10.0) -> None:
        if not weight >= 0:
            raise ValueError(f"RoutedAnswer(weight={weight}) is not valid: give at least 0.")
        super().__init__(
            AnswerMatch(),
            SpentCost(budget),
            weights={"spent_cost": weight},
            gates=[Gate(SUCCESS, 1.0, ("spent_cost",))],
        )
