"""What an episode may use up, and how much of it is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from agentgym.messages import StopReason
from agentgym.validated import validated_dataclass

Count = Annotated[int, Field(ge=1, strict=True)]


@validated_dataclass()
class Budgets:
    """Bounds of one episode. A budget that is used up ends the episode: it is truncated, and scored as it stands.

    Attributes:
        max_turns: agent messages.
        max_turn_tokens: tokens of one agent message.
        max_episode_tokens: tokens after the prompt, the agent's own and those of observations; None is no bound.
        max_calls: tool calls of all turns together; those beyond it are not run.
        time_s: wall seconds from reset to the last turn; judging the outcome does not count.
        max_void_turns: turns in a row that hold nothing the environment can act on or answer.
        infra_retries: how often one episode may try again after the infrastructure failed.
    Raises: ValueError naming each bound that is out of range, its value and the range.
    """

    max_turns: Count = 16
    max_turn_tokens: Count = 512
    max_episode_tokens: Count | None = None
    max_calls: Count = 64
    time_s: Annotated[float, Field(gt=0)] = 600.0
    max_void_turns: Count = 3
    infra_retries: Annotated[int, Field(ge=0, strict=True)] = 1


@dataclass(slots=True)
class BudgetUsage:
    """What one episode has used so far.

    Attributes:
        turns, calls: of the whole episode.
        tokens: after the prompt.
        void_turns: in a row, up to the last turn.
    """

    turns: int = 0
    calls: int = 0
    tokens: int = 0
    void_turns: int = 0

    def used_up(self, budgets: Budgets) -> StopReason | None:
        """The first budget that leaves nothing for another turn, None if there is none."""
        if budgets.max_episode_tokens is not None and self.tokens >= budgets.max_episode_tokens:
            return StopReason.MAX_TOKENS
        if self.void_turns >= budgets.max_void_turns:
            return StopReason.REPEATED_VOID
        if self.turns >= budgets.max_turns:
            return StopReason.MAX_TURNS
        if self.calls >= budgets.max_calls:
            return StopReason.MAX_CALLS
        return None
