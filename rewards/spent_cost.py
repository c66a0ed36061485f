"""`spent_cost`: an episode's spending as a share of a budget. Outcome component `spent_cost`, -1 to 0."""

from __future__ import annotations

import math
from collections.abc import Mapping

from agentgym import Reward, Trajectory
from agentgym.reward import Components


class SpentCost(Reward):
    """Minus the recorded costs of all turns divided by the budget, at least -1.

    A turn's cost is `cost` in its usage: the cost of its tools (`@tool(cost=...)`) and of the models that it asked
    (`agentgym.methods.teams.with_routing`). Gate this reward on `success`, like `search_cost`, or spending nothing
    becomes the best policy.

    Args:
        budget: the cost at which the component reaches -1, in the unit of the prices.
    Raises: ValueError for a budget that is not above 0.
    Source: Router-R1, Zhang et al. 2025, arXiv:2506.09033: the cost is normalised, and subtracted from the reward.
    """

    weights: Mapping[str, float] = {"spent_cost": 0.1}

    def __init__(self, budget: float = 1.0) -> None:
        if not 0 < budget < math.inf:
            raise ValueError(f"SpentCost(budget={budget}) is not valid: give a number above 0.")
        self.budget = budget

    def outcome(self, episode: Trajectory) -> Components:
        """Return the cost. Never raises: every episode has a cost."""
        spent = math.fsum(turn.usage.get("cost", 0.0) for turn in episode.turns)
        return {"spent_cost": -min(1.0, spent / self.budget)}
