"""Rollouts: one episode from reset to its stop reason, many at once, and what judges, bounds and replays them."""

from agentgym.rollout.branch import Divergence, Fork
from agentgym.rollout.budgets import Budgets
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.manager import Checkpoints, EpisodeManager

__all__ = ["Budgets", "Checkpoints", "Divergence", "EpisodeManager", "Fork", "RolloutConfig"]
