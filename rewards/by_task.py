"""`by_task`: each task says which registered reward judges it, so that one run mixes kinds of tasks.

Source: sample-level verifiers of V-Triune, Ma et al. 2025, arXiv:2505.18129, section 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import JudgeError, Reward, UnknownNameError, load_reward
from agentgym.reward import Components, EpisodeView, RewardStage, TurnView, validate_components, validate_each


class ByTask(Reward):
    """Judges as the reward named in `truth["verifier"]` does, with its components and weights.

    Args:
        default: judges tasks that name none. `options`: of constructors, by name of the reward.
    """

    def __init__(self, default: str | None = None, options: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.default, self.options = default, dict(options or {})
        self._loaded: dict[str, Reward] = {}
        self._progress, self._policy = 0.0, None

    def verifier_of(self, episode: EpisodeView) -> Reward:
        """The reward that judges an episode. Raises: JudgeError if the task names none, or one that is not there."""
        truth = episode.task.truth
        name = truth.get("verifier", self.default) if isinstance(truth, dict) else self.default
        if not isinstance(name, str) or name == "by_task":
            raise JudgeError(f"{episode.task.id} names no reward in truth['verifier'] (it is {name!r}).")
        if name not in self._loaded:
            try:
                reward = load_reward(name, **self.options.get(name, {}))
            except UnknownNameError as error:
                raise JudgeError(f"{episode.task.id}: truth['verifier']: {error}") from error
            reward.set_progress(self._progress)
            if self._policy is not None:
                reward.bind_policy(self._policy)
            self._loaded[name] = reward
        return self._loaded[name]

    async def turn(self, turn: TurnView, episode: EpisodeView) -> Components:
        judge = self.verifier_of(episode)
        return await validate_components(judge.turn(turn, episode), judge)

    async def outcome(self, episode: EpisodeView) -> Components:
        judge = self.verifier_of(episode)
        return await validate_components(judge.outcome(episode), judge)

    async def hindsight(self, episode: EpisodeView) -> list[Components]:
        judge = self.verifier_of(episode)
        return await validate_each(judge.hindsight(episode), judge, len(episode.turns))

    async def group(self, episodes: Sequence[EpisodeView]) -> list[Components]:
        judge = self.verifier_of(episodes[0])
        return await validate_each(judge.group(episodes), judge, len(episodes))

    def weights_for(self, episode: EpisodeView) -> Mapping[str, float]:
        return self.verifier_of(episode).weights_for(episode)

    def set_progress(self, progress: float) -> None:
        self._progress = progress
        for reward in self._loaded.values():
            reward.set_progress(progress)

    def bind_policy(self, policy: Any) -> None:
        self._policy = policy
        for reward in self._loaded.values():
            reward.bind_policy(policy)

    def has_stage(self, stage: RewardStage) -> bool:
        return True  # only a task can tell
