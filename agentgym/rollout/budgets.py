"""The budgets of an episode, and how much of them is used."""

from __future__ import annotations

from typing import NamedTuple

from agentgym.messages import StopReason
from agentgym.number_types import Count, Positive, WholeNumber
from agentgym.options import validated_dataclass
from agentgym.policy.contract import REPLY_S
from agentgym.storage.failures import says_nothing
from agentgym.trajectory.turn import Turn


@validated_dataclass()
class Budgets:
    """The budgets of one episode. A used-up budget truncates the episode, which is then judged as it is.

    Raises: ValueError naming each bound that is out of range, its value and the range.
    """

    max_turns: Count = 16
    """The number of turns after which an episode is truncated."""
    max_turn_tokens: Count = 512
    """How many tokens one message of the agent may have."""
    max_episode_tokens: Count | None = None
    """How many tokens an episode may have after its prompt, counting the agent's messages and the results. By default
    there is no limit."""
    max_calls: Count = 64
    """How many calls all turns of an episode may make in total. Further calls are not run."""
    time_s: Positive = 600.0
    """How many seconds the reset, the tools and the judging of turns may take in an episode. The time in which the
    policy samples, or waits for its turn to sample, does not count, and neither does judging the outcome."""
    reply_s: Positive = REPLY_S
    """How many seconds the policy may take for one message, including any wait before it samples. Taking longer counts
    as an infrastructure failure: the policy is asked again while retries are left, and then the episode fails."""
    max_void_turns: Count = 3
    """How many turns in a row may contain nothing that the environment can run or answer."""
    infra_retries: WholeNumber = 1
    """How many times an episode is retried after infrastructure failures."""


class EpisodeOver(Exception):
    """Raised inside the play loop when something ends the episode."""

    def __init__(self, reason: StopReason) -> None:
        self.reason = reason


class TokenLimit(NamedTuple):
    """How many tokens the next message may have.

    Attributes:
        tokens: the limit; 0 or less if there is no room for a message.
        reason: the stop reason if this limit ends the episode.
        ends_episode: whether a message that reaches the limit ends the episode; False for the limit of one turn.
    """

    tokens: int
    reason: StopReason
    ends_episode: bool


class BudgetUsage:
    """What one episode has used of its budgets so far.

    Attributes:
        turns, calls: counts over the whole episode.
        tokens: number of tokens after the prompt.
        void_turns: number of consecutive void turns up to and including the last turn.
    """

    def __init__(self, budgets: Budgets) -> None:
        self.turns = self.calls = self.tokens = self.void_turns = 0
        self.budgets = budgets
        self._first_prompt_tokens = 0  # the prompt's count, from a policy that gives no token ids
        self._turn_limit = TokenLimit(budgets.max_turn_tokens, StopReason.MAX_TOKENS, False)

    def count(self, turn: Turn, *, exact: bool) -> None:
        """Add a finished turn. `exact`: whether its token ids are known; otherwise the policy's own counts are used."""
        self.turns += 1
        self.calls = min(self.calls + len(turn.calls), self.budgets.max_calls)
        self.void_turns = self.void_turns + 1 if says_nothing(turn) else 0
        if exact:
            self.tokens += len(turn.token_ids)
        elif "prompt_tokens" in turn.usage:
            prompt_tokens, written = int(turn.usage["prompt_tokens"]), int(turn.usage.get("completion_tokens", 0))
            if turn.index == 0:
                self._first_prompt_tokens = prompt_tokens
            self.tokens = max(prompt_tokens - self._first_prompt_tokens, 0) + written

    def token_limit(self, context_room: int | None) -> TokenLimit:
        """Return the smallest limit on the next message: of the turn, of the episode or of the policy's context."""
        limit, max_episode_tokens = self._turn_limit, self.budgets.max_episode_tokens
        if max_episode_tokens is not None and max_episode_tokens - self.tokens < limit.tokens:
            limit = TokenLimit(max_episode_tokens - self.tokens, StopReason.MAX_TOKENS, True)
        if context_room is not None and context_room < limit.tokens:
            limit = TokenLimit(context_room, StopReason.CONTEXT_FULL, True)
        return limit

    def used_up(self) -> StopReason | None:
        """Return the stop reason of the first budget that allows no further turn; None if all allow one."""
        budgets = self.budgets
        if budgets.max_episode_tokens is not None and self.tokens >= budgets.max_episode_tokens:
            return StopReason.MAX_TOKENS
        if self.void_turns >= budgets.max_void_turns:
            return StopReason.REPEATED_VOID
        if self.turns >= budgets.max_turns:
            return StopReason.MAX_TURNS
        if self.calls >= budgets.max_calls:
            return StopReason.MAX_CALLS
        return None
