"""`search_cost`: the cost of an episode's calls as a share of a budget. Outcome component `search_cost`, -1 to 0."""

from __future__ import annotations

import math
from collections.abc import Mapping

from agentgym import Reward, Trajectory
from agentgym.reward import Components

PRICES: Mapping[str, float] = {"search": 1.0, "open": 0.25, "follow": 0.25, "find": 0.05}


class SearchCost(Reward):
    """Minus the price of all calls divided by the budget, at least -1.

    Every well-formed call costs its tool's price, even if it was refused; a tool without a price is free. Gate this
    reward on `success`, or making no calls becomes the best policy: Router-R1 (Zhang et al. 2025, arXiv:2506.09033)
    applies its cost term only to right answers, and OTC (Wang et al. 2025, arXiv:2504.14870) multiplies correctness by
    a factor that falls with the number of calls.

    Args:
        prices: the price of a call per tool, in the unit of the budget. budget: the total price that costs -1.
    Raises: ValueError for a price below 0 or a budget that is not above 0.
    """

    weights: Mapping[str, float] = {"search_cost": 0.1}

    def __init__(self, prices: Mapping[str, float] = PRICES, budget: float = 10.0) -> None:
        if not (0 < budget < math.inf and all(0 <= price < math.inf for price in prices.values())):
            raise ValueError(
                f"prices = {prices} and budget = {budget} are not valid: prices must be at least 0, and the budget "
                "above 0."
            )
        self.prices, self.budget = dict(prices), budget

    def outcome(self, episode: Trajectory) -> Components:
        """Return the cost. Never raises: every episode has a cost."""
        calls = [call for turn in episode.turns for call in turn.calls if call.error is None]
        spent = math.fsum(self.prices.get(call.name, 0.0) for call in calls)
        return {"search_cost": -min(1.0, spent / self.budget)}
