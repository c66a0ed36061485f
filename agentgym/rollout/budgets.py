"""What an episode may use up, and how much of it is used."""

from __future__ import annotations

from dataclasses import dataclass, fields

from agentgym.messages import StopReason


@dataclass(frozen=True, slots=True)
class Budgets:
    """Bounds of one episode. A budget that is used up ends it: truncated, and scored as it stands.

    Attributes:
        max_turns: agent messages.
        max_tokens: tokens after the prompt, the agent's own and those of observations; None is no bound.
        max_calls: calls of all turns together; those beyond it are not run.
        time_s: wall seconds from reset to the last turn, the time of judging the outcome not counted.
        max_void_turns: turns in a row that say nothing the world can act on or answer.
        infra_retries: how often one episode may try again after the infrastructure failed.
    Raises: ValueError when a bound is below 1 (`infra_retries` below 0) or no number.
    """

    max_turns: int = 16
    max_tokens: int | None = None
    max_calls: int = 64
    time_s: float = 600.0
    max_void_turns: int = 3
    infra_retries: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "max_tokens" and value is None:
                continue
            least: float = 0 if field.name == "infra_retries" else 1
            if field.name == "time_s":
                if not (isinstance(value, (int, float)) and value > 0):
                    raise ValueError(f"Budgets.time_s is {value!r}: it is a number of seconds above 0.")
            elif not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"Budgets.{field.name} is {value!r}: it is a whole number of {least} or more.")


@dataclass(slots=True)
class Spent:
    """What one episode has used so far: turns, calls, tokens after the prompt, void turns in a row."""

    turns: int = 0
    calls: int = 0
    tokens: int = 0
    void_turns: int = 0

    def used_up(self, budgets: Budgets) -> StopReason | None:
        """The first budget with nothing left for another turn, None while there is."""
        if budgets.max_tokens is not None and self.tokens >= budgets.max_tokens:
            return StopReason.MAX_TOKENS
        if self.void_turns >= budgets.max_void_turns:
            return StopReason.REPEATED_VOID
        if self.turns >= budgets.max_turns:
            return StopReason.MAX_TURNS
        if self.calls >= budgets.max_calls:
            return StopReason.MAX_CALLS
        return None
