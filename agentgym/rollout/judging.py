"""Call rewards after a turn and at the end of an episode, check their results, and retry after a failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from typing_extensions import override

from agentgym.errors import JudgeError, RewardError
from agentgym.reward import Components, validate_components, validate_each
from agentgym.reward.contract import Reward, validate_spans
from agentgym.rollout.failures import defined_at
from agentgym.sandbox.limits import in_order
from agentgym.sandbox.metering import metered
from agentgym.sandbox.time_limit import TimeLimit
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn

V = TypeVar("V")
Check = Callable[[Any, Reward], Awaitable[V]]


class Judge:
    """Calls a reward, and tries again after a failure.

    Args:
        reward: the reward that gives the components.
        time_s: the time limit of one answer, in seconds; the same as an episode's time limit.
        retry: called with the error of a failed answer; returns whether to try again. Not called for an invalid reward
            value.
        weights: weights of components that hooks add; the reward's own weights take precedence.
    """

    def __init__(
        self,
        reward: Reward,
        time_s: float,
        retry: Callable[[Exception], bool],
        weights: Mapping[str, float] = {},
    ) -> None:
        self._time_s, self._retry, self._added_weights = time_s, retry, weights
        self.replace_reward(reward)

    @property
    def reward(self) -> Reward:
        """The reward in use."""
        return self._reward

    def replace_reward(self, reward: Reward) -> None:
        """Use another reward from now on."""
        self._reward, self._judges_turns = reward, reward.has_stage("turn")

    def weights_for(self, trajectory: Trajectory) -> dict[str, float]:
        """Return the component weights for a judged episode."""
        weights = {**self._added_weights, **self.reward.weights_for(trajectory)}
        return {name: float(weight) for name, weight in weights.items()}

    def merge(self, earlier: Components, later: Components) -> Components:
        """Return the union of two sets of components. Raises: RewardError if both have the same component."""
        if shared := earlier.keys() & later.keys():
            name = type(self.reward).__name__
            raise RewardError(
                f"{name} gives the component {sorted(shared)} twice, per turn and at the end. Rename one of them."
            )
        return earlier | later

    async def judge_turn(self, turn: Turn, trajectory: Trajectory) -> None:
        """Set the reward components of a finished turn.

        Raises: RewardError for an invalid answer; JudgeError for no answer in time; the reward's own errors.
        """
        if self._judges_turns:
            turn.rewards = await self.ask(self._reward.turn, turn, trajectory, check=validate_components)

    async def judge_recorded_turn(self, recorded: Turn, trajectory: Trajectory) -> None:
        """Judge the last turn of a trajectory that is being rescored.

        Args:
            recorded: the turn with its original rewards.
        Raises: as `judge_turn`.
        """
        await self.judge_turn(trajectory.turns[-1], trajectory)

    async def judge_end(self, trajectory: Trajectory) -> bool:
        """Judge an ended episode: set its outcome, component weights, and the turns' hindsight components and spans.

        Returns: whether turns may have new components or spans.
        Raises: as `judge_turn`.
        """
        reward = self.reward
        trajectory.outcome = await self.ask(reward.outcome, trajectory, check=validate_components)
        in_hindsight = reward.has_stage("hindsight")
        if in_hindsight:
            check = partial(validate_each, count=len(trajectory.turns))
            components_by_turn = await self.ask(reward.hindsight, trajectory, check=check)
            for turn, components in zip(trajectory.turns, components_by_turn, strict=True):
                turn.rewards = self.merge(turn.rewards, components)
        names_spans = reward.has_stage("spans")
        if names_spans:
            check_spans = partial(validate_spans, turns=trajectory.turns)
            spans_by_turn = await self.ask(reward.spans, trajectory, check=check_spans)
            for turn, spans in zip(trajectory.turns, spans_by_turn, strict=True):
                turn.spans = tuple(spans)
        trajectory.weights = self.weights_for(trajectory)
        return in_hindsight or names_spans

    async def ask(self, stage: Callable[..., Any], *subject: Any, check: Check[V]) -> V:
        """Return a reward's checked answer at a stage; try again after a failure as long as `retry` allows.

        The limits that the judge's own sandboxes do not enforce are added to the provenance of the judged trajectories.
        """
        while True:
            reward, limit = self._reward, None
            try:
                answer = stage(*subject)
                if isinstance(answer, dict):  # nothing to wait for, so no sandbox was used
                    return await check(answer, reward)
                with TimeLimit(self._time_s) as limit, metered() as meter:
                    checked = await check(answer, reward)
                if meter.missing:
                    for trajectory in subject[-1] if isinstance(subject[-1], list) else [subject[-1]]:
                        known = trajectory.provenance
                        known.weaker_limits = in_order((*known.weaker_limits, *meter.missing))
                return checked
            except RewardError as error:
                location = defined_at(getattr(reward, "function", stage))
                raise RewardError(f"{error} See {location}." if location else str(error)) from error
            except Exception as error:
                failure = error
                if limit is not None and limit.expired:
                    failure = JudgeError(f"{type(reward).__name__} gave no verdict in {self._time_s:g} s")
                if not self._retry(failure):
                    if failure is error:
                        raise
                    raise failure from error


class WrappedJudge(Judge):
    """A judge that wraps another judge. Methods that a subclass does not override are passed to the wrapped judge."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    @property
    @override
    def reward(self) -> Reward:
        return self._judge.reward

    @override
    def replace_reward(self, reward: Reward) -> None:
        self._judge.replace_reward(reward)

    @override
    def weights_for(self, trajectory: Trajectory) -> dict[str, float]:
        return self._judge.weights_for(trajectory)

    @override
    async def judge_turn(self, turn: Turn, trajectory: Trajectory) -> None:
        await self._judge.judge_turn(turn, trajectory)

    @override
    async def judge_recorded_turn(self, recorded: Turn, trajectory: Trajectory) -> None:
        await self._judge.judge_recorded_turn(recorded, trajectory)

    @override
    async def judge_end(self, trajectory: Trajectory) -> bool:
        return await self._judge.judge_end(trajectory)

    @override
    async def ask(self, stage: Callable[..., Any], *subject: Any, check: Check[V]) -> V:
        return await self._judge.ask(stage, *subject, check=check)
