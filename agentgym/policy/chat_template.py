"""A tokenizer's chat template: find the text that it puts around messages, by rendering placeholders."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agentgym.errors import PolicyError
from agentgym.messages import Message
from agentgym.thoughts import begun_thought

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

MARK = re.compile(r"qz(?:SEGMENT)?(\d+)(CONTENT|NAME|ID)zq")
CALLED = "qzARGUMENTzq"
PROBE_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "probe",
        "description": "Probe.",
        "parameters": {"type": "object", "properties": {"x": {"type": "string", "description": "X."}}},
    },
}
Row = dict[str, Any]


def mark(index: int, part: str = "CONTENT") -> str:
    """Return the placeholder of a message's CONTENT or NAME, or of the ID of the call that it answers.

    An id has nine letters or digits, as Mistral's template requires.
    """
    return f"qz{index:03d}IDzq" if part == "ID" else f"qzSEGMENT{index}{part}zq"


def placeholders(messages: Sequence[Message], start: int = 0) -> list[Row]:
    """Return messages in the form a template takes, with placeholders for their contents."""
    rows: list[Row] = []
    for index, message in enumerate(messages, start):
        row: Row = {"role": message.role, "content": mark(index)}
        if message.role == "tool":
            row |= {"name": mark(index, "NAME"), "tool_call_id": mark(index, "ID")}
        rows.append(row)
    return rows


def call_shapes(calls: Sequence[Row]) -> Iterator[Row]:
    """Yield an assistant's message with these calls in each form that templates accept.

    Some templates reject content together with calls, DeepSeek's wants None and the arguments as JSON text, and some
    write only the content.
    """
    written = [
        {**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}
        for call in calls
    ]
    for tool_calls in (list(calls), written):
        for content in ("", None):
            yield {"role": "assistant", "content": content, "tool_calls": tool_calls}
    yield {"role": "assistant", "content": mark(1), "tool_calls": list(calls)}


class ChatTemplate:
    """Renders conversations, and finds the token that ends a turn and the text before the next turn.

    Args:
        tokenizer: a transformers tokenizer, with a chat template.
        name: the tokenizer's name in errors.
        options: further variables of the template.
        control: the special tokens used in calls, which never end a message.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, name: str, options: dict[str, Any], control: Collection[str]
    ) -> None:
        self._tokenizer, self._name, self._options, self._control = tokenizer, name, options, control
        added = tokenizer.added_tokens_decoder.values()
        self.specials = {token.content for token in added if token.special} | set(tokenizer.all_special_tokens)
        self._special = re.compile("|".join(map(re.escape, sorted(self.specials, key=len, reverse=True))) or r"(?!)")

    def render(self, conversation: Sequence[Row], tools: Sequence[Row], *, prompt: bool = True) -> str:
        """Return the template's text. `prompt`: whether it leads up to the agent's next words. Raises: PolicyError."""
        from jinja2.exceptions import TemplateError
        from transformers.utils.chat_template_utils import render_jinja_template

        given: list[Row] | None = list(tools) or None
        for given_tools in (given, []) if given is None else (given,):  # some templates loop over tools unchecked
            try:  # `apply_chat_template` would drop content that is None, but DeepSeek's template tests for it
                [text], _ = render_jinja_template(
                    conversations=[list(conversation)],
                    tools=given_tools,
                    chat_template=self._tokenizer.get_chat_template(tools=given),
                    add_generation_prompt=prompt,
                    **{**self._tokenizer.special_tokens_map, **self._options},
                )
                return str(text)
            except (TemplateError, TypeError, AttributeError, KeyError) as error:
                failure: Exception = error
        roles = ", ".join(row["role"] for row in conversation)
        raise PolicyError(f"The chat template of {self._name} cannot render the roles {roles}: {failure}") from failure

    @cached_property
    def begun_thought(self) -> str:
        """The opening mark of a thought at the end of the prompt, as in some thinking models' templates; else ""."""
        return begun_thought(self.render(self.opening(0)[:1], [PROBE_TOOL]))

    @cached_property
    def ends(self) -> tuple[str, ...]:
        """The tokens with which the template ends an agent's message: (after text, after a call).

        If the template writes no token after the conversation's last message, the token before a following message is
        used. Harmony ends earlier messages with another token than the newest one, and GLM ends a call with the token
        that begins the result.
        """
        user = placeholders([Message("user")], start=2)
        words = called = self._end(self.opening(0), user)
        if self.takes_calls:
            with suppress(PolicyError):  # DeepSeek's template does not end a single call
                called = self._end(self.opening(1), placeholders([Message("tool")], start=2))
        return tuple(last or before_next for last, before_next, _ in (words, called))

    @cached_property
    def takes_calls(self) -> bool:
        """Whether the template writes calls followed by a result."""
        result = placeholders([Message("tool")], start=2)
        return self._call_shape is not None and CALLED in self.render([*self.opening(1), *result], [PROBE_TOOL])

    def opening(self, calls: int, start: int = 2) -> list[Row]:
        """Return a question and the agent's message: `calls` calls, or text if 0. The next index is `start`."""
        question, words = placeholders([Message("user"), Message("assistant")])
        if not calls or self._call_shape is None:
            return [question, {**words, "content": mark(start - 1)}]
        answer = list(call_shapes([_call(index) for index in range(start, start + calls)]))[self._call_shape]
        return [question, answer]

    def between(self, roles: Sequence[str], calls: int) -> tuple[str, bool, str]:
        """Return the end token of the agent's message, whether it also begins the next text, and the text after it.

        The text runs from the end token to where the agent writes again. It holds placeholders for the further
        messages, of which the first has index 2 (0: question, 1: the agent's message).

        Args:
            roles: the roles of the further messages.
            calls: the number of calls in the agent's message.
        Raises: PolicyError if the template does not write the calls, or if their place cannot be found.
        """
        rows = placeholders([Message(role) for role in roles], start=2)  # type: ignore[arg-type]
        for count in sorted({calls, min(calls, 1)}, reverse=True):  # some templates allow only one call per message
            with suppress(PolicyError):
                last, end, text = self._end(self.opening(count), rows)
                return end, not last, text
        last, end, text = self._end(self.opening(0), rows)
        return end, not last, text

    def conversation(
        self,
        question: str,
        turns: Sequence[Message],
        results: Sequence[Sequence[str]],
        tools: Sequence[Row],
        *,
        answer: str = "",
    ) -> str:
        """Return the template's text of turns with calls and results, up to where the agent writes again.

        Args:
            answer: the agent's last message; if given, the text ends with it.
        Raises: PolicyError if the template does not write all calls and results.
        """
        rows: list[Row] = [{"role": "user", "content": question}]
        for message, texts in zip(turns, results, strict=True):
            calls = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.calls
            ]
            row = list(call_shapes(calls))[self._call_shape or 0]
            rows.append({**row, "content": message.text} if message.text else row)
            rows += [
                {"role": "tool", "content": text, "name": call.name, "tool_call_id": call.id}
                for call, text in zip(message.calls, texts, strict=True)
            ]
        rows += [{"role": "assistant", "content": answer}] * bool(answer)
        text = self.render(rows, tools, prompt=not answer)
        at = 0
        for message in turns:
            values = (value for call in message.calls for value in call.arguments.values())
            for part in (message.text, *(value for value in values if isinstance(value, str))):
                if (at := text.find(part, at)) < 0:
                    raise self.unusable("leaves out calls, or words before calls")
        return text

    @cached_property
    def _call_shape(self) -> int | None:
        """The index of the call shape that the template accepts with a result after it; None if there is none."""
        result = placeholders([Message("tool")], start=2)
        question = placeholders([Message("user")])
        for index, answer in enumerate(call_shapes([_call(2)])):
            try:
                text = self.render([*question, answer, *result], [PROBE_TOOL])
            except PolicyError:
                continue
            if (anchor := anchor_in(text)) and mark(2) in text.split(anchor)[-1]:
                return index
        return None

    def _end(self, opening: Sequence[Row], rows: Sequence[Row]) -> tuple[str, str, str]:
        """Return the agent's end token if nothing follows, the one before `rows`, and the text after that one."""
        is_call = "tool_calls" in opening[1]
        text = self.render([*opening, *rows], [PROBE_TOOL])
        if not (anchor := anchor_in(text)):
            raise self.unusable("does not write an assistant message ahead of the message that follows it")
        after = text.rpartition(anchor)[2]
        before_next = MARK.split(after, maxsplit=1)[0]
        candidates = [m for m in self._special.finditer(before_next) if not (is_call and m.group() in self._control)]
        if not candidates:
            raise self.unusable("writes no special token after an assistant message")
        alone = self.render(opening, [PROBE_TOOL], prompt=False).rpartition(anchor)[2]
        last = next((m for m in self._special.findall(alone) if not (is_call and m in self._control)), "")
        return last, candidates[0].group(), after[candidates[0].end() :]

    def unusable(self, why: str) -> PolicyError:
        """Return the error for a template that does not preserve earlier tokens."""
        return PolicyError(
            f"The chat template of {self._name} cannot be used, because it {why}. The prompt of a later turn must "
            "begin with the tokens of all earlier turns, and TRL has no training version of this template. Give "
            "another template (policy.chat_template in a recipe, --policy-option chat_template=FILE.jinja), or turn "
            "this off with template_options."
        )


def anchor_in(text: str) -> str:
    """Return the last placeholder of the agent's message in a text; "" if there is none."""
    return CALLED if CALLED in text else mark(1) * (mark(1) in text)


def _call(answer: int) -> Row:
    """Return a call whose result is message number `answer`."""
    function = {"name": mark(answer, "NAME"), "arguments": {"x": CALLED}}
    return {"id": mark(answer, "ID"), "type": "function", "function": function}
