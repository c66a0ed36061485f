"""Rules that end an episode which will not succeed any more, so that its remaining turns are not played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from agentgym.messages import ResultStatus
from agentgym.options import validated_dataclass
from agentgym.rollout.budgets import Count
from agentgym.rollout.live_environment import EnvironmentState, LiveEnvironment
from agentgym.trajectory import Turn

_NOT_RUN = frozenset({ResultStatus.MALFORMED, ResultStatus.UNKNOWN_TOOL, ResultStatus.WRONG_ARGUMENTS})


@dataclass(frozen=True, slots=True)
class Situation:
    """An episode before one of its turns.

    Attributes:
        turns: those that were taken, in this attempt where an episode has several.
        state: of the environment now.
        turns_left: before `max_turns` ends the episode.
    """

    turns: Sequence[Turn]
    state: EnvironmentState
    turns_left: int


class StopRule:
    """Says when an episode is hopeless. It looks at the record and the state alone, so a resumed run stops alike.

    Attributes:
        reads_state_keys: whether turns have to record the environment's state key.
    """

    reads_state_keys = False

    async def reason(self, situation: Situation, environment: LiveEnvironment) -> str | None:
        """Why the episode should end now, in words; None to go on."""
        raise NotImplementedError


@validated_dataclass(kw_only=True)
class NoProgress(StopRule):
    """Ends an episode whose potential has not risen above its highest for `turns` turns.

    It applies where the environment has a potential (see `Environment.potential`).
    """

    turns: Count
    """For how many turns the potential may stay at its highest or below."""

    async def reason(self, situation: Situation, environment: LiveEnvironment) -> str | None:
        """As StopRule."""
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

    times: Annotated[int, Field(ge=2, strict=True)]
    """How often an episode may come to the same state, the first time included."""

    reads_state_keys = True

    async def reason(self, situation: Situation, environment: LiveEnvironment) -> str | None:
        """As StopRule."""
        key = situation.state.state_key
        visits = 1 + sum(turn.state_key == key for turn in situation.turns)
        return f"the same state {visits} times" if key is not None and visits >= self.times else None


@validated_dataclass(kw_only=True)
class InvalidCalls(StopRule):
    """Ends an episode after `turns` turns in a row without one call of an existing tool with valid arguments."""

    turns: Count
    """How many turns in a row may hold no valid call."""

    async def reason(self, situation: Situation, environment: LiveEnvironment) -> str | None:
        """As StopRule."""
        last = situation.turns[-self.turns :]
        if len(last) < self.turns or not all(turn.results for turn in last):
            return None
        if any(result.status not in _NOT_RUN for turn in last for result in turn.results):
            return None
        return f"{self.turns} turns in a row without a valid call"


@validated_dataclass(kw_only=True)
class OutOfReach(StopRule):
    """Ends an episode that has fewer turns left than the oracle would need (see `Environment.turns_needed`)."""

    async def reason(self, situation: Situation, environment: LiveEnvironment) -> str | None:
        """As StopRule."""
        needed = await environment.turns_needed()
        if needed is None or needed <= situation.turns_left:
            return None
        return f"{needed} turns needed and {situation.turns_left} left"


@validated_dataclass(kw_only=True)
class Hopeless(StopRule):
    """Ends an episode that its environment calls hopeless (see `Environment.hopeless`)."""

    async def reason(self, situation: Situation, environment: LiveEnvironment) -> str | None:
        """As StopRule."""
        return await environment.hopeless()


STOP_RULES: dict[str, type[StopRule]] = {
    "hopeless": Hopeless,
    "no_progress": NoProgress,
    "repeated_state": RepeatedState,
    "invalid_calls": InvalidCalls,
    "out_of_reach": OutOfReach,
}
"""The rules by the names that recipes use."""
