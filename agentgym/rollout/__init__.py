"""Rollouts: one episode from reset to its stop reason, many at once, and what judges, bounds and replays them.

config.py             RolloutConfig: every option
manager.py            EpisodeManager: what users call
workers.py jobs.py    the episodes of a run, played at once; slots.py is how many; group_rewards.py judges whole groups
health.py standstill.py   whether they get anywhere
episode.py play_loop.py   one episode, and its turns
hooks.py              what looks at each turn, such as stop rules and several attempts (agentgym.methods)
contexts.py conversation.py live_environment.py budgets.py judging.py   what the loop works with
replay.py             branches of saved trajectories, and replays
"""

from agentgym.moved import moved_names
from agentgym.rollout.budgets import Budgets
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.episode_config import Checkpoints
from agentgym.rollout.hooks import EpisodeHandle, EpisodeHook, TurnOutcome
from agentgym.rollout.judging import Judge, WrappedJudge
from agentgym.rollout.live_environment import EnvironmentState
from agentgym.rollout.manager import EpisodeManager
from agentgym.rollout.replay import Divergence, ExhaustedPolicy, Fork, tree_labels
from agentgym.rollout.slots import Slots
from agentgym.rollout.standstill import StandstillWatch

__all__ = [
    "Budgets",
    "Checkpoints",
    "Divergence",
    "EnvironmentState",
    "EpisodeHandle",
    "EpisodeHook",
    "EpisodeManager",
    "ExhaustedPolicy",
    "Fork",
    "Judge",
    "RolloutConfig",
    "Slots",
    "StandstillWatch",
    "TurnOutcome",
    "WrappedJudge",
    "tree_labels",
]

__getattr__ = moved_names(__name__)
