"""A context of an episode that a program may continue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym.errors import PolicyError
from agentgym.messages import Call, Message, Result, ResultStatus
from agentgym.policy.contract import Renderer
from agentgym.rollout.conversation import Conversation
from agentgym.trajectory.turn import Turn

from .chat import Answer, Chat, Key, invalid, is_call_of

UNKNOWN_RESULT = "[the program did not say what came of this call]"


def conversation_of(chat: Chat, renderer: Renderer | None) -> Conversation:
    """Return the conversation of a request. Raises: ServerRefusal if the policy's chat template cannot render it."""
    try:
        return Conversation(chat.messages, chat.tools, renderer)
    except PolicyError as error:
        raise invalid(f"The policy cannot read these messages: {error}") from error


@dataclass(slots=True)
class OpenRow:
    """A row that may be continued.

    Attributes:
        keys: the keys of its messages so far, including the policy's last one.
        answer: the answer to the request of its last turn. turn: that turn, until its observation is known.
        allowed: how many calls of this turn the budget has room for.
        executed: calls of this turn that were answered. running: requests whose calls run now.
    """

    number: int
    conversation: Conversation
    tools: Sequence[dict[str, Any]]
    keys: list[Key]
    turn: Turn | None = None
    answer: Answer | None = None
    allowed: int = 0
    executed: list[tuple[Call, Result]] = field(default_factory=list)
    running: set[asyncio.Future[Any]] = field(default_factory=set)

    def has_answered(self, keys: Sequence[Key], tools: Sequence[dict[str, Any]]) -> bool:
        """Return whether the row's last turn answered this request, and the program has not continued the row since."""
        return self.turn is not None and self.keys[:-1] == keys and list(self.tools) == list(tools)

    def continues_with(self, keys: Sequence[Key], tools: Sequence[dict[str, Any]]) -> bool:
        """Return whether a request continues the row after its last message. The added messages are the observation."""
        count = len(self.keys)
        added = [key[0] for key in keys[count:]]
        in_order = added == sorted(added, key=lambda role: role != "tool")  # results come before other messages
        is_whole = self.turn is not None and bool(added) and "assistant" not in added and in_order
        return is_whole and list(keys[:count]) == self.keys and list(self.tools) == list(tools)

    def record(self, turn: Turn, observation: Sequence[Message]) -> None:
        """Record in a turn its calls (the program's own calls last), their results, and the replies.

        If the environment ran a call, its result counts; if the program sent another text, that is recorded as a reply.
        """
        messages = {message.call_id: message for message in observation if message.role == "tool"}
        executed = {call.id: result for call, result in self.executed}
        results = [_result(call, messages.get(call.id), executed.get(call.id)) for call in turn.calls]
        own_ids = {call.id for call in turn.calls}
        others = [(call, result) for call, result in self.executed if call.id not in own_ids]
        turn.calls = (*turn.calls, *(call for call, _ in others))
        turn.results = (*results, *(result for _, result in others))
        contents = {result.call_id: result.content for result in results}
        turn.replies = tuple(m for m in observation if m.role != "tool" or contents.get(m.call_id or "") != m.content)


def _result(call: Call, message: Message | None, executed: Result | None) -> Result:
    """Return a call's result, from the environment if it ran the call, else from the program's message."""
    if call.error is not None:
        return Result(message.content if message else call.error, ResultStatus.MALFORMED, call.name, call.id)
    if executed is None:
        content = message.content if message else UNKNOWN_RESULT
        return Result(content, ResultStatus.BY_PROGRAM, call.name, call.id)
    return executed


def latest_row(rows: Iterable[OpenRow]) -> OpenRow | None:
    """Return the row with the latest turn whose observation is not known; None without any."""
    return max((row for row in rows if row.turn), key=lambda row: row.turn.index if row.turn else -1, default=None)


def row_of_call(rows: Sequence[OpenRow], name: str, arguments: dict[str, Any]) -> OpenRow | None:
    """Return the row whose last message made a call, else the one with the latest turn; None without any."""
    holding = [
        row
        for row in rows
        for call in (row.turn.calls if row.turn else ())
        if is_call_of(call, name, arguments) and call.id not in {own.id for own, _ in row.executed}
    ]
    return latest_row(holding) or latest_row(rows)
