"""`by_task`: each task names the registered reward that judges it, so that one run can mix kinds of tasks.

Source: sample-level verifiers of V-Triune, Ma et al. 2025, arXiv:2505.18129, section 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import JudgeError, Reward, Trajectory, Turn, UnknownNameError, load_reward
from agentgym.reward import Components, RewardStage, validate_components, validate_each


class ByTask(Reward):
    """Judges with the reward named in `truth["reward"]`, with its components and weights.

    Args:
        default: reward for tasks that name none. options: constructor options, keyed by the reward's name.
    """

    def __init__(self, default: str | None = None, options: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.default, self.options = default, dict(options or {})
        self._loaded: dict[str, Reward] = {}
        self._progress, self._policy = 0.0, None

    def reward_of(self, episode: Trajectory) -> Reward:
        """Return the reward that judges an episode. Raises: JudgeError if the task names none, or an unknown one."""
        truth = episode.task.truth
        name = truth.get("reward", self.default) if isinstance(truth, dict) else self.default
        if not isinstance(name, str) or name == "by_task":
            raise JudgeError(f"{episode.task.id}: truth['reward'] must be the name of another reward, not {name!r}.")
        if name not in self._loaded:
            try:
                reward = load_reward(name, **self.options.get(name, {}))
            except UnknownNameError as error:
                raise JudgeError(f"{episode.task.id}: the reward in truth['reward'] cannot be made. {error}") from error
            reward.set_progress(self._progress)
            if self._policy is not None:
                reward.bind_policy(self._policy)
            self._loaded[name] = reward
        return self._loaded[name]

    async def turn(self, turn: Turn, episode: Trajectory) -> Components:
        reward = self.reward_of(episode)
        return await validate_components(reward.turn(turn, episode), reward)

    async def outcome(self, episode: Trajectory) -> Components:
        reward = self.reward_of(episode)
        return await validate_components(reward.outcome(episode), reward)

    async def hindsight(self, episode: Trajectory) -> list[Components]:
        reward = self.reward_of(episode)
        return await validate_each(reward.hindsight(episode), reward, len(episode.turns))

    async def group(self, episodes: Sequence[Trajectory]) -> list[Components]:
        reward = self.reward_of(episodes[0])
        return await validate_each(reward.group(episodes), reward, len(episodes))

    def weights_for(self, episode: Trajectory) -> Mapping[str, float]:
        return self.reward_of(episode).weights_for(episode)

    def set_progress(self, progress: float) -> None:
        self._progress = progress
        for reward in self._loaded.values():
            reward.set_progress(progress)

    def bind_policy(self, policy: Any) -> None:
        self._policy = policy
        for reward in self._loaded.values():
            reward.bind_policy(policy)

    def has_stage(self, stage: RewardStage) -> bool:
        return True  # depends on the task
