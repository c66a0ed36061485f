"""The return that critics learn: what was still to come before each turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class ReturnSpec:
    """The return of an estimator: its discount per turn, and the weights of outcome and turn rewards."""

    gamma: float = 1.0
    outcome_weight: float = 1.0
    turn_weight: float = 1.0

    def rewards(self, trajectory: Trajectory) -> np.ndarray:
        """[T] weighted rewards of the turns; the last one includes the outcome."""
        rewards = self.turn_weight * np.nan_to_num(trajectory.turn_rewards())
        rewards[-1] += self.outcome_weight * trajectory.outcome_reward
        return rewards

    def returns_to_go(self, trajectory: Trajectory) -> np.ndarray:
        """[T] discounted sum of turn rewards and outcome from each turn on."""
        rewards = self.rewards(trajectory)
        returns = np.zeros(len(rewards))
        following = 0.0
        for turn in reversed(range(len(rewards))):
            following = returns[turn] = rewards[turn] + self.gamma * following
        return returns
