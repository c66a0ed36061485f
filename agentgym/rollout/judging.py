"""Asks rewards after a turn and at the end of an episode, checks their answers, and asks again after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from agentgym.errors import JudgeError, RewardError
from agentgym.messages import StopReason
from agentgym.reward import Components, Reward, validate_components, validate_each, validate_spans
from agentgym.rollout.causes import defined_at
from agentgym.trajectory import Trajectory, Turn

V = TypeVar("V")


class Judge:
    """Asks a reward, and asks again after a failure.

    Args:
        reward: gives the components.
        time_s: how long an answer may take: as long as an episode.
        retry: called with what failed; returns whether to ask once more. It is not called for an answer that is no
            reward.
    """

    def __init__(self, reward: Reward, time_s: float, retry: Callable[[Exception], bool]) -> None:
        self.reward = reward
        self._time_s, self._retry = time_s, retry
        self._judges_turns = reward.has_stage("turn")

    async def judge_turn(self, turn: Turn, trajectory: Trajectory) -> None:
        """Give a finished turn its components. Raises: RewardError, JudgeError, whatever else the reward raises."""
        if self._judges_turns:
            turn.rewards = dict(await self.ask(self.reward.turn, turn, trajectory, check=validate_components))

    @property
    def attempt_start(self) -> int:
        """The first turn of the attempt that is played; 0 where there is one attempt."""
        return 0

    async def end_attempt(self, trajectory: Trajectory, reason: StopReason) -> str | None:
        """Called when the agent or the environment has ended an attempt.

        Returns: the feedback that the agent reads before its next attempt; None if there is none.
        Raises: as `judge_turn`.
        """
        return None

    async def judge_end(self, trajectory: Trajectory) -> bool:
        """Judge an episode that has ended: its outcome, its turns in hindsight, and the weights that count for it.

        Returns: whether turns were given components or spans that they had not before.
        Raises: as `judge_turn`.
        """
        reward = self.reward
        trajectory.outcome = dict(await self.ask(reward.outcome, trajectory, check=validate_components))
        in_hindsight = reward.has_stage("hindsight")
        if in_hindsight:
            check = partial(validate_each, count=len(trajectory.turns))
            components_by_turn = await self.ask(reward.hindsight, trajectory, check=check)
            for turn, components in zip(trajectory.turns, components_by_turn, strict=True):
                turn.rewards = merge_components(turn.rewards, components, reward)
        names_spans = reward.has_stage("spans")
        if names_spans:
            check_spans = partial(validate_spans, turns=trajectory.turns)
            spans_by_turn = await self.ask(reward.spans, trajectory, check=check_spans)
            for turn, spans in zip(trajectory.turns, spans_by_turn, strict=True):
                turn.spans = tuple(spans)
        trajectory.weights = dict(reward.weights_for(trajectory))
        return in_hindsight or names_spans

    async def ask(self, stage: Callable[..., Any], *subject: Any, check: Callable[[Any, Reward], Awaitable[V]]) -> V:
        """A reward's answer at a stage, checked; asked for again after a failure as long as `retry` allows it."""
        while True:
            limit: asyncio.Timeout | None = None
            try:
                answer = stage(*subject)
                if isinstance(answer, dict):  # nothing to wait for
                    return await check(answer, self.reward)
                async with asyncio.timeout(self._time_s) as limit:
                    return await check(answer, self.reward)
            except RewardError as error:
                location = defined_at(getattr(self.reward, "function", stage))
                raise RewardError(f"{error} See {location}." if location else str(error)) from error
            except Exception as error:
                failure = error
                if limit is not None and limit.expired():
                    failure = JudgeError(f"{type(self.reward).__name__} gave no verdict in {self._time_s:g} s")
                if not self._retry(failure):
                    if failure is error:
                        raise
                    raise failure from error


def merge_components(earlier: Components, later: Components, reward: Reward) -> Components:
    """Both; a component is given once. Raises: RewardError."""
    if shared := earlier.keys() & later.keys():
        raise RewardError(f"{type(reward).__name__} gives the component {sorted(shared)} a second time: rename one.")
    return earlier | later
