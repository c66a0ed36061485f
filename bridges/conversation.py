"""A conversation in the common format of other tools: role, content, tool calls with an id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentgym import Call, Message, ResultStatus, Trajectory

__all__ = ["ConversationEntry", "conversation"]

MAX_SHOWN = 20_000


@dataclass(frozen=True, slots=True)
class ConversationEntry:
    """One message, with call ids that are unique in the conversation and link calls to results.

    Attributes:
        calls: the calls of an agent's message, each with its id. call_id, status: the call id and status of a result.
        turn: the turn in which the message was written or returned; -1 for the opening. `row`: the row that holds it.
    """

    message: Message
    turn: int
    calls: tuple[tuple[str, Call], ...] = ()
    call_id: str | None = None
    status: ResultStatus | None = None
    row: int = 0


def conversation(trajectory: Trajectory) -> Iterator[ConversationEntry]:
    """Yield the whole conversation, row by row, with new call ids, because models reuse call ids in later messages."""
    for number, row in enumerate(trajectory.rows()):
        for message in row.opening:
            yield ConversationEntry(message, -1, row=number)
        for turn in row.turns:
            ids = [f"call_{turn.index}_{position}" for position in range(len(turn.calls))]
            yield ConversationEntry(turn.message, turn.index, tuple(zip(ids, turn.calls, strict=True)), row=number)
            reworded = {reply.call_id for reply in turn.replies if reply.role == "tool"}
            for name, result in zip(ids, turn.results, strict=False):
                if result.call_id in reworded:
                    continue
                yield ConversationEntry(result.message(), turn.index, call_id=name, status=result.status, row=number)
            for reply in turn.replies:
                answered = [name for name, call in zip(ids, turn.calls, strict=True) if call.id == reply.call_id]
                yield ConversationEntry(reply, turn.index, call_id=next(iter(answered), None), row=number)


def shortened(text: str) -> str:
    """Return a text as a tracker shows it to people: the beginning of a long one, such as a submitted archive."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}\n[{len(text) - MAX_SHOWN} more characters]"
