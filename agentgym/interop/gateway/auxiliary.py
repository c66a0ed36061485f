"""A program's auxiliary requests: for a title or a summary, beside the conversation that works on the task.

They are recognised by what is general: such a request offers no tools and has other instructions than the requests that
do. They are answered by the policy, but are not turns of the episode, so that they are neither judged nor trained; the
provenance keeps them as `auxiliary`. Their tokens count against the episode's budget.

In a sandbox the agent's own commands can send requests too: one to use the policy unseen, or one with tools, to make
auxiliary what it has said before. There only requests that arrived before the policy had answered any decide or are
auxiliary, since nothing of the agent has run by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym.messages import Message

from .chat import Answer, AnsweredRequest, Chat
from .open_row import OpenRow

MAX_AUXILIARY = 32
"""The most auxiliary requests of an episode. Any further one is a turn."""
SHOWN_CHARS = 500


class Auxiliary:
    """Tells auxiliary requests from turns.

    Args:
        are_turns: whether all requests are turns.
        agent_has_key: whether the agent's own commands can send requests too.
    Attributes:
        record: the requests and their answers, for the provenance.
    """

    def __init__(self, *, are_turns: bool, agent_has_key: bool) -> None:
        self._are_turns, self._agent_has_key = are_turns, agent_has_key
        self._instructions: set[str] = set()  # of the requests with tools
        self.record: list[dict[str, Any]] = []

    def includes(self, chat: Chat, *, has_acted: bool) -> bool:
        """Return whether a request is auxiliary. About those before the first one with tools `led_to` decides.

        Args:
            has_acted: whether the policy had answered a request when this one arrived.
        """
        if self._are_turns or (has_acted and self._agent_has_key):
            return False
        if chat.tools or not self._instructions or len(self.record) >= MAX_AUXILIARY:
            return False
        return _instructions(chat.messages) not in self._instructions

    def led_to(self, chat: Chat, rows: Sequence[OpenRow], turns: int, *, has_acted: bool) -> bool:
        """Note a request with tools. Returns: whether all rows before it were auxiliary, each with a single turn."""
        if self._are_turns or not chat.tools:
            return False
        instructions, is_first = _instructions(chat.messages), not self._instructions
        self._instructions.add(instructions)
        return (
            is_first
            and not (has_acted and self._agent_has_key)
            and 0 < turns == len(rows) <= MAX_AUXILIARY
            and not any(row.tools or row.executed for row in rows)
            and all(_instructions(row.conversation.messages) != instructions for row in rows)
        )

    def note(self, request: AnsweredRequest) -> Answer:
        """Record an auxiliary request. Returns: its answer."""
        answer = request.answer
        self.record.append(
            {
                "instructions": _instructions(request.chat.messages)[:SHOWN_CHARS],
                "answer": answer.message.text[:SHOWN_CHARS],
                "prompt_tokens": answer.prompt_tokens,
                "completion_tokens": answer.completion_tokens,
            }
        )
        return answer


def _instructions(messages: Sequence[Message]) -> str:
    """Return the system messages at the beginning of a conversation."""
    count = next((i for i, message in enumerate(messages) if message.role != "system"), len(messages))
    return "\n".join(message.text for message in messages[:count])
