"""Several rewards as one: a weighted sum whose weights may change over training and depend on the episode.

Schedules, gates and caps change weights only: every component is recorded as the judge returned it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentgym.errors import RewardError
from agentgym.reward.contract import (
    Components,
    Reward,
    RewardStage,
    validate_components,
    validate_each,
    validate_feedback,
    validate_spans,
)
from agentgym.trajectory import Span
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn


@dataclass(frozen=True, slots=True)
class Schedule:
    """A factor on a component's weight that changes over training, from `start` to `end`.

    Attributes:
        begin, finish: shares of the training, 0 to 1, between which the factor changes; it is constant outside them.
        shape: `linear`; `cosine`, slow at both ends; `step`, all at once at `finish`.
    Raises: ValueError for numbers that are not finite, or begin after finish.
    Source: dynamic reward scale, ToolRL, arXiv:2504.13958, section 4.3: format early, correctness late.
    """

    start: float
    end: float
    begin: float = 0.0
    finish: float = 1.0
    shape: Literal["linear", "cosine", "step"] = "linear"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.start) and math.isfinite(self.end) and 0 <= self.begin <= self.finish <= 1):
            raise ValueError(
                f"{self} is not valid: a schedule needs a finite start and end, and 0 <= begin <= finish <= 1."
            )
        if self.shape not in ("linear", "cosine", "step"):
            raise ValueError(f"The schedule's shape {self.shape!r} is not known. Choose linear, cosine or step.")

    def factor(self, progress: float) -> float:
        """Return the factor at a share `progress`, 0 to 1, of the training."""
        span = self.finish - self.begin
        done = min(max((progress - self.begin) / span, 0.0), 1.0) if span else float(progress >= self.finish)
        if self.shape == "step":
            done = float(progress >= self.finish)
        elif self.shape == "cosine":
            done = (1.0 - math.cos(math.pi * done)) / 2.0
        return self.start + done * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class Gate:
    """Counts some components only where another one is high: R = R_high + 1[R_high >= threshold] * sum of gated.

    Attributes:
        by: the outcome component R_high, unweighted. The gate stays shut in an episode without this component.
        threshold: tau, in units of R_high.
        opens: the gated components; if empty, every component but `by`.
    Source: gated reward accumulation, G-RA, arXiv:2508.10548.
    """

    by: str
    threshold: float
    opens: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "opens", tuple(self.opens))
        if not self.by or not math.isfinite(self.threshold) or self.by in self.opens:
            raise ValueError(
                f"{self} is not valid: a gate needs a component and a finite threshold, and must not gate itself."
            )

    def shuts(self, name: str, outcome: Mapping[str, float]) -> bool:
        """Return whether the gate excludes a component in an episode with this outcome."""
        if name == self.by or (self.opens and name not in self.opens):
            return False
        return not outcome.get(self.by, -math.inf) >= self.threshold


class Combined(Reward):
    """Several rewards as one. Their component names must differ. Each reward keeps its own weights.

    Args:
        rewards: the parts, called in order.
        weights: new weights for single components.
        schedules: factors on weights that change over training, by component.
        gates: see Gate. Any of several gates can exclude a component.
        caps: by component, the cap on the sum of its absolute values over an episode, in the component's units. A
            larger sum scales the component's weight down to the cap, so that longer episodes do not earn more.
    Raises: ValueError for a cap that is negative or not finite.
    """

    def __init__(
        self,
        *rewards: Reward,
        weights: Mapping[str, float] | None = None,
        schedules: Mapping[str, Schedule] | None = None,
        gates: Sequence[Gate] = (),
        caps: Mapping[str, float] | None = None,
    ) -> None:
        self.rewards = rewards
        self.sampler = next((reward.sampler for reward in rewards if reward.sampler), "")
        self.schedules, self.gates, self.caps = dict(schedules or {}), tuple(gates), dict(caps or {})
        for name, cap in self.caps.items():
            if not (math.isfinite(cap) and cap >= 0):
                raise ValueError(f"The cap of {name!r} is {cap!r}. Give a finite number of at least 0.")
        self._given = dict(weights or {})
        self._progress = 0.0
        self._weigh()

    def identity(self) -> dict[str, Any]:
        """Return the constructor's arguments; the attribute `weights` changes with the schedules during training."""
        given = {"weights": self._given, "schedules": self.schedules, "gates": self.gates, "caps": self.caps}
        return {"class": type(self).__qualname__, "rewards": self.rewards, **given}

    async def turn(self, turn: Turn, episode: Trajectory) -> Components:
        return await self._ask("turn", turn, episode)

    async def outcome(self, episode: Trajectory) -> Components:
        return await self._ask("outcome", episode)

    async def hindsight(self, episode: Trajectory) -> list[Components]:
        return await self._ask_each("hindsight", episode, len(episode.turns))

    async def spans(self, episode: Trajectory) -> list[list[Span]]:
        spans: list[list[Span]] = [[] for _ in episode.turns]
        for reward in self.rewards:
            if reward.has_stage("spans"):
                answers = await validate_spans(reward.spans(episode), reward, episode.turns)
                spans = [[*earlier, *more] for earlier, more in zip(spans, answers, strict=True)]
        return spans

    async def feedback(self, episode: Trajectory) -> str:
        """Return the non-empty texts of all parts, one per line."""
        texts = [await validate_feedback(r.feedback(episode), r) for r in self.rewards if r.has_stage("feedback")]
        return "\n".join(filter(None, texts))

    async def group(self, episodes: Sequence[Trajectory]) -> list[Components]:
        return await self._ask_each("group", episodes, len(episodes))

    def has_stage(self, stage: RewardStage) -> bool:
        return any(reward.has_stage(stage) for reward in self.rewards)

    def set_progress(self, progress: float) -> None:
        self._progress = progress
        for reward in self.rewards:
            reward.set_progress(progress)
        self._weigh()

    def bind_policy(self, policy: Any) -> None:
        for reward in self.rewards:
            reward.bind_policy(policy)

    def weights_for(self, episode: Trajectory) -> Mapping[str, float]:
        """Return the current weights for this episode, after its gates and caps."""
        totals: dict[str, float] = {}
        rows = [episode.outcome, *(turn.rewards for turn in episode.turns)]
        for name, value in (item for row in rows for item in row.items()):
            totals[name] = totals.get(name, 0.0) + abs(value)
        weights = dict(self.weights)
        for reward in self.rewards:
            weights |= {name: self._set(name, weight) for name, weight in reward.weights_for(episode).items()}
        for name, total in totals.items():
            factor = 0.0 if any(gate.shuts(name, episode.outcome) for gate in self.gates) else 1.0
            if total > self.caps.get(name, math.inf):
                factor *= self.caps[name] / total
            if factor != 1.0:
                weights[name] = factor * weights.get(name, 1.0)
        return weights

    def _weigh(self) -> None:
        own = {name: weight for reward in self.rewards for name, weight in reward.weights.items()}
        self.weights = {name: self._set(name, own.get(name, 1.0)) for name in {**own, **self._given, **self.schedules}}

    def _set(self, name: str, weight: float) -> float:
        """Return a component's current weight: the override or the reward's own weight, times the schedule's factor."""
        weight = self._given.get(name, weight)
        return weight * self.schedules[name].factor(self._progress) if name in self.schedules else weight

    async def _ask(self, stage: RewardStage, *views: Any) -> Components:
        merged: Components = {}
        for reward in self.rewards:
            _merge(merged, await validate_components(getattr(reward, stage)(*views), reward))
        return merged

    async def _ask_each(self, stage: RewardStage, view: Any, count: int) -> list[Components]:
        merged: list[Components] = [{} for _ in range(count)]
        for reward in self.rewards:
            if reward.has_stage(stage):
                answers = await validate_each(getattr(reward, stage)(view), reward, count)
                for merged_components, components in zip(merged, answers, strict=True):
                    _merge(merged_components, components)
        return merged


def _merge(into: Components, components: Components) -> None:
    if shared := into.keys() & components.keys():
        raise RewardError(f"Two rewards both return the component {sorted(shared)}. Rename one of them.")
    into |= components
