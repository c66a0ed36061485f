"""Play episodes from reset to their stop reason, many at once; limit, judge and replay them.

config.py             RolloutConfig: every option
manager.py            EpisodeManager: what users call
workers/ engine.py    play many episodes at once, here or on a cluster; group_rewards.py judges whole groups
episodes.py           the shared config of a run's episodes, and the job of each episode
episode.py play_loop.py   one episode, and its turns
hooks.py              callbacks on each turn, such as stop rules and several attempts (agentgym.methods)
contexts.py conversation.py prompt.py   the messages that the agent reads
environments.py environment_handle.py budgets.py judging.py checks.py   the parts that the loop uses
failures.py           infrastructure failures: causes, retries of an episode, when a run ends
rollouts.py           Rollouts: the manager for synchronous callers, on the loop of episode_loop.py
progress.py           bars, or lines of text, that show how far the episodes are
search.py             the contract of a search over turns, which plays tasks in place of the manager
replay.py             branches of saved trajectories, and replays
"""

from agentgym.moved import moved_names
from agentgym.rollout.environment_handle import EnvironmentState
from agentgym.rollout.environments import schemas_of
from agentgym.rollout.episodes import Checkpoints
from agentgym.rollout.failures import is_bug
from agentgym.rollout.hooks import EpisodeHandle, EpisodeHook, TurnOutcome
from agentgym.rollout.judging import Judge, WrappedJudge
from agentgym.rollout.replay import Fork, ReplayPolicy

__all__ = [
    "Checkpoints",
    "EnvironmentState",
    "EpisodeHandle",
    "EpisodeHook",
    "Fork",
    "Judge",
    "ReplayPolicy",
    "TurnOutcome",
    "WrappedJudge",
    "is_bug",
    "schemas_of",
]

__getattr__ = moved_names(__name__)
