"""Choose a model's call format: the one that reads back a call written by the model's own chat template."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agentgym.errors import PolicyError
from agentgym.messages import Call
from agentgym.policy.chat_template import ChatTemplate, call_shapes
from agentgym.policy.formats.coercion import parse_message
from agentgym.policy.formats.contract import NINE_LETTERS, CallFormat, CallIds, excerpt, ids_of
from agentgym.registry import load, names

AUTO = "auto"
FALLBACK = "hermes"
"""The format for a template that writes no calls: the renderer then explains calls to the model."""
# without quotes, which some templates write wrongly
PROBE_CALL = Call("probe", {"text": "some words", "count": 3}, "call_0")
PROBE_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": PROBE_CALL.name,
        "description": "Probe.",
        "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "A text."},
                "count": {"type": "integer", "description": "A number."},
            },
            "required": ["text", "count"],
        },
    },
}


_ONE_LAYOUT: tuple[dict[str, Any], ...] = ({},)


class CallFormatWarning(UserWarning):
    """The named call format is not the format of the model's chat template."""


def call_format_for(tokenizer: Any, name: str = AUTO, template_options: dict[str, Any] | None = None) -> CallFormat:
    """Return the call format of a registered name; for "auto", the one that the tokenizer's chat template writes.

    Args:
        tokenizer: a transformers tokenizer. Its template also decides the layout, if the format has several.
    Raises: PolicyError if the template cannot write calls, or writes calls that no registered format reads;
        UnknownNameError.
    """
    written = WrittenCalls(tokenizer, template_options)
    if name != AUTO:
        return _as_written(load("call_formats", name), written)
    if text := written.text():
        return _format_that_reads(text, written, tokenizer)
    if written.failure is not None:
        raise PolicyError(
            f"{written.failure} So it is not known how its model writes calls. Name a call format (call_format, or "
            "policy.call_format in a recipe) or another template (policy.chat_template)."
        ) from written.failure
    return _as_written(load("call_formats", FALLBACK), written)


class WrittenCalls:
    """Messages with calls of the tool `probe` as a tokenizer's chat template writes them.

    Attributes:
        failure: why rendering failed for the first message that the template could not render; None if none failed.
    """

    def __init__(self, tokenizer: Any, template_options: dict[str, Any] | None = None) -> None:
        self.failure: PolicyError | None = None
        self._texts: dict[Any, str | None] = {}
        self._template = None
        if getattr(tokenizer, "chat_template", None):
            name = tokenizer.name_or_path or type(tokenizer).__name__
            self._template = ChatTemplate(tokenizer, name, dict(template_options or {}), ())

    def text(self, count: int = 1, ids: CallIds | None = None, words: str = "") -> str | None:
        """Return the template's text of a message with `count` calls; None without a template, or if it writes none.

        Args:
            ids: makes the calls' ids.
            words: the message's text outside the calls.
        """
        calls = probe_calls(count, ids)
        key = (words, *(call.id for call in calls))
        if key not in self._texts:
            self._texts[key] = self._rendered(calls, words)
        return self._texts[key]

    def _rendered(self, calls: Sequence[Call], words: str) -> str | None:
        if self._template is None:
            return None
        question = {"role": "user", "content": "?"}
        failures = list[PolicyError]()
        try:
            prompt = self._template.render([question], [PROBE_TOOL])
        except PolicyError:
            return None
        shapes = list(call_shapes([as_row(call) for call in calls]))
        for shape in shapes:
            answer = {**shape, "content": words} if words else shape
            try:
                conversation = self._template.render([question, answer], [PROBE_TOOL], prompt=False)
            except PolicyError as error:
                failures.append(error)
                continue
            begin = prompt
            while not conversation.startswith(begin):  # the prompt may end in a thought that the answer lacks
                begin = begin[: max(begin.rfind("<", 0, -1), begin.rfind("\n", 0, -1), 0)]
            written = conversation.removeprefix(begin)
            if written.count(PROBE_CALL.arguments["text"]) >= len(calls):
                return written
        if len(failures) == len(shapes):
            self.failure = self.failure or failures[0]
        return None


def probe_calls(count: int, ids: CallIds | None, first: int = 0) -> tuple[Call, ...]:
    """Return calls of the tool `probe`, with ids as a conversation gives them from call number `first` on."""
    ids = ids or NINE_LETTERS
    return tuple(replace(PROBE_CALL, id=ids.make(PROBE_CALL.name, first + number)) for number in range(count))


def as_row(call: Call) -> dict[str, Any]:
    """Return a call in the form that templates take."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def call_by_template(
    tokenizer: Any, template_options: dict[str, Any] | None = None, call_format: CallFormat | None = None
) -> str | None:
    """Return a call of the tool `probe` as the chat template writes it; None without a template, or if it writes none.

    Args:
        call_format: the format that makes the call's id, if its calls have ids.
    """
    return WrittenCalls(tokenizer, template_options).text(1, ids_of(call_format))


def reads_back(call_format: CallFormat, written: str) -> bool:
    """Return whether a format reads the probe call in `written`, a text returned by `call_by_template`."""
    _, calls = parse_message(call_format, written, [PROBE_TOOL])
    ids = ids_of(call_format)
    expected = (PROBE_CALL.name, PROBE_CALL.arguments, None)
    return [(call.name, call.arguments, call.error) for call in calls] == [expected] and (
        ids is None or calls[0].id == ids.make(PROBE_CALL.name, 0)
    )


def warn_of_another_format(call_format: CallFormat, tokenizer: Any, template_options: dict[str, Any] | None) -> None:
    """Issue a CallFormatWarning if the named format does not read the calls that the chat template writes."""
    written = call_by_template(tokenizer, template_options, call_format)
    if written is not None and not reads_back(call_format, written):
        warnings.warn(
            (
                f"The call format {call_format.name} cannot read calls as the chat template writes them: "
                f"{excerpt(written, 120)}. The model was probably trained on the template's form. Use call_format = "
                "'auto', which takes the format that fits."
            ),
            CallFormatWarning,
            stacklevel=2,
        )


def _as_written(factory: Any, written: WrittenCalls) -> CallFormat:
    """Return the format in the layout that the template writes; by default in its first layout.

    Args:
        factory: a class that takes one of its `layouts`, or a function that makes the format.
    """
    formats: list[CallFormat] = [factory(**options) for options in getattr(factory, "layouts", _ONE_LAYOUT)]
    return max(formats, key=lambda form: _written_alike(form, written))  # the first, if several are equal


def _written_alike(call_format: CallFormat, written: WrittenCalls) -> int:
    """Return the length of the format's text of two calls if the template writes it too, else of one call, else 0."""
    ids = ids_of(call_format)
    for count in (2, 1):
        text = written.text(count, ids)
        with suppress(ValueError):
            rendered = call_format.render(probe_calls(count, ids))
            if text is not None and rendered in text:
                return len(rendered)
    return 0


def _format_that_reads(text: str, written: WrittenCalls, tokenizer: Any) -> CallFormat:
    """Return a format that reads the template's call, preferably one that also writes the call that way."""
    candidates = sorted(names("call_formats"), key=lambda name: name != FALLBACK)
    formats = [_as_written(load("call_formats", name), written) for name in candidates]
    reading = [form for form in formats if reads_back(form, written.text(1, ids_of(form)) or text)]
    if reading:
        return max(reading, key=lambda form: _written_alike(form, written))
    raise PolicyError(
        f"The chat template of {tokenizer.name_or_path or type(tokenizer).__name__} writes a call as "
        f"{excerpt(text, 120)}, which none of the call formats reads, so none was chosen automatically. Name the "
        "format in which the model really writes its calls as call_format (policy.call_format in a recipe): "
        f"{', '.join(candidates)}."
    )
