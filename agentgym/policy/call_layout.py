"""How a chat template lays out calls: the white space around them, and the ids by which results refer to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from agentgym.messages import Call, Message
from agentgym.policy.chat_template import PROBE_TOOL, ChatTemplate, mark
from agentgym.policy.formats.choice import WrittenCalls, probe_calls
from agentgym.policy.formats.contract import NINE_LETTERS, CallFormat, ids_of


class CallLayout:
    """How a chat template lays out calls in its model's call format.

    Args:
        template: the tokenizer's template.
        tokenizer: a transformers tokenizer.
        call_format: how the agent writes calls.
        options: further variables of the template.

    Attributes:
        ids: how the calls carry ids; None if they carry none.
    """

    def __init__(
        self, template: ChatTemplate, tokenizer: Any, call_format: CallFormat, options: dict[str, Any]
    ) -> None:
        self.ids = ids_of(call_format)
        self._template, self._call_format = template, call_format
        self._written = WrittenCalls(tokenizer, options)

    @cached_property
    def spaces(self) -> tuple[str, str, str]:
        """The template's white space: before calls without words, between words and calls, and after calls."""
        rendered, words = self._call_format.render(probe_calls(1, self.ids)), "Words."
        alone, beside = self._written.text(1, self.ids) or "", self._written.text(1, self.ids, words) or ""
        before = after = ""
        if rendered in alone:
            before, _, rest = alone.partition(rendered)
            after = rest.partition(self._template.ends[-1])[0]
        message = beside.partition(rendered)[0] if rendered in beside else ""
        between = message.rpartition(words)[2] if words in message else "\n"
        return _space(before), _space(between), _space(after)

    def numbered(self, message: Message, earlier: int) -> Message:
        """Return a message with its calls' ids as the model writes them, after `earlier` calls in the conversation."""
        ids = self.ids
        if ids is None or not message.calls:
            return message
        first = earlier if self._counts_on else 0
        calls = (replace(call, id=ids.make(call.name, first + index)) for index, call in enumerate(message.calls))
        return replace(message, calls=tuple(calls))

    def with_placeholders(self, text: str, roles: Sequence[str]) -> str:
        """Return the template's text of results, with placeholders in place of ids that the template itself made up.

        Args:
            text: the text after the agent's calls; its messages are numbered from 2.
            roles: the roles of these messages.
        """
        if self.ids is None:
            return text
        for number, index in enumerate(2 + i for i, role in enumerate(roles) if role == "tool"):
            own = self.ids.reference.format(id=self.ids.make(mark(index, "NAME"), number))
            text = text.replace(own, self.ids.reference.format(id=mark(index, "ID")))
        return text

    def result_id(self, messages: Sequence[Message], index: int) -> str:
        """Return the id of the call that message number `index` answers, in the model's form."""
        call = Call(messages[index].name or "", id=messages[index].call_id or "")
        number = sum(message.role == "tool" for message in messages[:index])
        return (self.ids or NINE_LETTERS).of(call, number)

    @cached_property
    def _counts_on(self) -> bool:
        """Whether the template counts calls over the whole conversation instead of within each message."""
        if not self._template.takes_calls:
            return True
        turns = [Message("assistant", "", probe_calls(1, self.ids, number)) for number in range(2)]
        text = self._template.conversation("?", turns, [["0"], ["1"]], [PROBE_TOOL])
        return text.count(self._call_format.render(turns[0].calls)) < 2


def answering(calls: Iterable[Call], messages: Sequence[Message]) -> list[Message]:
    """Return the messages: the first result gets the id of the first call, and so on."""
    each = iter(calls)
    return [
        replace(message, call_id=call.id) if message.role == "tool" and (call := next(each, None)) else message
        for message in messages
    ]


def _space(text: str) -> str:
    return "" if text.strip() else text
