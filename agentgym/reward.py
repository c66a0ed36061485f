"""The reward contract: named components for turns and for the outcome, and how they are summed.

A reward never returns one number. It returns components by name, which are logged one by one; a
component that is missing is missing, not 0. A judge that cannot judge raises `JudgeError`: its episode
is kept but not trained on.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from agentgym.errors import RewardError
from agentgym.messages import Call, Message, Result, StopReason
from agentgym.task import Task

Components = dict[str, float]

SUCCESS = "success"
"""The outcome component that evaluation reads: 1.0 where the task is solved, 0.0 where it is not."""


@runtime_checkable
class TurnView(Protocol):
    """What a reward sees of a turn."""

    index: int
    message: Message
    calls: Sequence[Call]
    results: Sequence[Result]


@runtime_checkable
class EpisodeView(Protocol):
    """What a reward sees of an episode. `stop_reason` is None while it runs."""

    task: Task
    turns: Sequence[Any]
    stop_reason: StopReason | None


class Reward:
    """Base of reward functions. Override `turn`, `outcome` or both; each may be sync or async.

    `weights` says how much a component counts in the scalar that the trainer sees (1.0 where absent);
    the components themselves are recorded unweighted.
    """

    weights: Mapping[str, float] = {}

    def turn(self, turn: TurnView, episode: EpisodeView) -> Any:
        """Components earned by this turn, in reward units. Returns: dict[str, float], or an awaitable of it."""
        return {}

    def outcome(self, episode: EpisodeView) -> Any:
        """Components earned by the whole episode. Returns: dict[str, float], or an awaitable of it."""
        return {}

    def total(self, components: Mapping[str, float]) -> float:
        """The weighted sum of components, in reward units."""
        return math.fsum(self.weights.get(name, 1.0) * value for name, value in components.items())


class Combined(Reward):
    """Several rewards as one. Their component names must differ; each keeps its own weights.

    Args:
        rewards: the parts, asked in order.
        weights: overrides of single components' weights.
    """

    def __init__(self, *rewards: Reward, weights: Mapping[str, float] | None = None) -> None:
        self.rewards = rewards
        self.weights = {name: w for reward in rewards for name, w in reward.weights.items()} | dict(weights or {})

    async def turn(self, turn: TurnView, episode: EpisodeView) -> Components:
        return await self._ask("turn", turn, episode)

    async def outcome(self, episode: EpisodeView) -> Components:
        return await self._ask("outcome", episode)

    async def _ask(self, moment: str, *views: Any) -> Components:
        merged: Components = {}
        for reward in self.rewards:
            components = await judged(getattr(reward, moment)(*views), reward)
            if shared := merged.keys() & components.keys():
                raise RewardError(f"Two rewards both return the component {sorted(shared)}: rename one.")
            merged |= components
        return merged


async def judged(answer: Any, reward: Reward) -> Components:
    """Await a reward's answer if need be and check it: a dict of finite numbers by name.

    Raises: RewardError naming the reward, the component and the value.
    """
    if inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, dict):
        raise RewardError(
            f"{type(reward).__name__} returned {answer!r}: a reward returns a dict of components by name, "
            "for example {'success': 1.0}."
        )
    for name, value in answer.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise RewardError(
                f"{type(reward).__name__} returned {value!r} for the component {name!r}: a reward is a finite "
                "number. Leave a component out when there is nothing to say; raise JudgeError when judging failed."
            )
    return answer
