"""Rules that end a hopeless episode, so that its remaining turns are not played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field
from typing_extensions import override

from agentgym import Environment, Outlook, ResultStatus, SandboxExhausted, StopReason, ToolError, Turn
from agentgym.options import Count, validated_dataclass
from agentgym.rollout import EnvironmentState, EpisodeHandle, EpisodeHook, TurnOutcome

__all__ = [
    "STOP_RULES",
    "Hopeless",
    "InvalidCalls",
    "NoProgress",
    "OutOfReach",
    "RepeatedState",
    "Situation",
    "StopRule",
]

_NOT_RUN = frozenset({ResultStatus.MALFORMED, ResultStatus.UNKNOWN_TOOL, ResultStatus.WRONG_ARGUMENTS})


@dataclass(frozen=True, slots=True)
class Situation:
    """An episode before one of its turns.

    Attributes:
        turns: the turns so far, only those of the current attempt if an episode has several.
        state: the current state of the environment.
        turns_left: turns that the budget leaves.
    """

    turns: Sequence[Turn]
    state: EnvironmentState
    turns_left: int


class StopRule(EpisodeHook):
    """Decides when an episode is hopeless. It may use only the record and the environment's state, so that a resumed
    run decides in the same way.

    In an episode that repeats recorded turns (a branch), it is not asked before these turns.
    """

    async def reason(self, situation: Situation, environment: Environment) -> str | None:
        """Return in words why the episode should end now; None to continue."""
        raise NotImplementedError

    @override
    async def after_turn(self, episode: EpisodeHandle, turn: Turn, stop: StopReason | None) -> TurnOutcome:
        if stop is not None or episode.recorded_turn is not None:
            return TurnOutcome(stop)
        situation = Situation(episode.turns, episode.state, episode.turns_left)
        if (reason := await self.reason(situation, episode.environment)) is None:
            return TurnOutcome()
        episode.trajectory.provenance.hopeless = reason
        return TurnOutcome(StopReason.HOPELESS)


@validated_dataclass(kw_only=True)
class NoProgress(StopRule):
    """Ends an episode whose potential has not risen above its highest for `turns` turns.

    It applies where the environment has a potential (see `Environment.potential`).
    """

    turns: Count
    """How many turns in a row may bring no new highest potential."""

    @override
    async def reason(self, situation: Situation, environment: Environment) -> str | None:
        potentials = [*(turn.potential for turn in situation.turns), situation.state.potential]
        known = [potential for potential in potentials if potential is not None]
        if len(known) < len(potentials) or len(known) <= self.turns:
            return None
        highest = max(known[: -self.turns])
        if max(known[-self.turns :]) > highest:
            return None
        return f"no progress in {self.turns} turns: the potential has not risen above {highest:g}"


@validated_dataclass(kw_only=True)
class RepeatedState(StopRule):
    """Ends an episode that has come to the same state `times` times, the first time included.

    It applies where the environment has a state key (see `Environment.state_key`).
    """

    reads_state_keys: ClassVar[bool] = True

    times: Annotated[int, Field(ge=2, strict=True)]
    """How often an episode may come to the same state, the first time included."""

    @override
    async def reason(self, situation: Situation, environment: Environment) -> str | None:
        key = situation.state.state_key
        visits = 1 + sum(turn.state_key == key for turn in situation.turns)
        return f"the same state {visits} times" if key is not None and visits >= self.times else None


@validated_dataclass(kw_only=True)
class InvalidCalls(StopRule):
    """Ends an episode after `turns` turns in a row without one call of an existing tool with valid arguments."""

    turns: Count
    """How many turns in a row may hold no valid call."""

    @override
    async def reason(self, situation: Situation, environment: Environment) -> str | None:
        last = situation.turns[-self.turns :]
        if len(last) < self.turns or not all(turn.results for turn in last):
            return None
        if any(result.status not in _NOT_RUN for turn in last for result in turn.results):
            return None
        return f"{self.turns} turns in a row without a valid call"


@validated_dataclass(kw_only=True)
class OutOfReach(StopRule):
    """Ends an episode that has fewer turns left than the oracle would need (see `Outlook.turns_needed`)."""

    @override
    async def reason(self, situation: Situation, environment: Environment) -> str | None:
        outlook = await _read_outlook(environment)
        needed = None if outlook is None else outlook.turns_needed
        if needed is None or needed <= situation.turns_left:
            return None
        return f"{needed} turns needed and {situation.turns_left} left"


@validated_dataclass(kw_only=True)
class Hopeless(StopRule):
    """Ends an episode that its environment calls hopeless (see `Outlook.hopeless`)."""

    @override
    async def reason(self, situation: Situation, environment: Environment) -> str | None:
        outlook = await _read_outlook(environment)
        return None if outlook is None else outlook.hopeless


async def _read_outlook(environment: Environment) -> Outlook | None:
    """Return the environment's outlook; None if the agent's actions keep it from being computed."""
    try:
        return await environment.outlook()
    except SandboxExhausted:
        raise
    except ToolError:
        return None


STOP_RULES: dict[str, type[StopRule]] = {
    "hopeless": Hopeless,
    "no_progress": NoProgress,
    "repeated_state": RepeatedState,
    "invalid_calls": InvalidCalls,
    "out_of_reach": OutOfReach,
}
"""The rules by the names that recipes use."""
