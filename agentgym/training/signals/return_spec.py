"""What was still to come before each turn: the number that critics learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class ReturnSpec:
    """The return of an estimator: its discount per turn, and how much outcome and turn rewards count."""

    gamma: float = 1.0
    outcome_weight: float = 1.0
    turn_weight: float = 1.0

    def rewards(self, trajectory: Trajectory) -> np.ndarray:
        """[K] weighted rewards of the turns, the outcome on the last."""
        rewards = self.turn_weight * np.nan_to_num(trajectory.turn_rewards())
        rewards[-1] += self.outcome_weight * trajectory.outcome_reward
        return rewards

    def to_go(self, trajectory: Trajectory) -> np.ndarray:
        """[K] discounted turn rewards and outcome from before each turn on."""
        rewards = self.rewards(trajectory)
        found = np.zeros(len(rewards))
        following = 0.0
        for k in reversed(range(len(rewards))):
            following = found[k] = rewards[k] + self.gamma * following
        return found
