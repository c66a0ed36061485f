"""Choose a model's call format: the one that reads back a call written by the model's own chat template."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

from agentgym.errors import PolicyError
from agentgym.messages import Call
from agentgym.policy.chat_template import ChatTemplate, call_id, call_shapes
from agentgym.policy.formats.coercion import parse_message
from agentgym.policy.formats.contract import CallFormat, excerpt
from agentgym.registry import load, names

AUTO = "auto"
FALLBACK = "hermes"
"""The format for a template that writes no calls: the renderer then explains calls to the model."""
PROBE_CALL = Call("probe", {"text": "some words", "count": 3}, "call_0")  # no quotes: some templates write them wrong
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
    Raises: PolicyError if the template writes calls that no registered format reads; UnknownNameError.
    """
    written = call_by_template(tokenizer, template_options)
    if name == AUTO:
        return (
            _as_written(load("call_formats", FALLBACK), None)
            if written is None
            else _format_that_reads(written, tokenizer)
        )
    return _as_written(load("call_formats", name), written)


def call_by_template(tokenizer: Any, template_options: dict[str, Any] | None = None) -> str | None:
    """Return a call of the tool `probe` as the chat template writes it; None without a template or calls in it."""
    if not getattr(tokenizer, "chat_template", None):
        return None
    template = ChatTemplate(tokenizer, "tokenizer", dict(template_options or {}), ())
    function = {"name": PROBE_CALL.name, "arguments": PROBE_CALL.arguments}
    call = {"id": call_id(0), "type": "function", "function": function}
    question = {"role": "user", "content": "?"}
    try:
        prompt = template.render([question], [PROBE_TOOL])
    except PolicyError:
        return None
    for answer in call_shapes([call]):
        with suppress(PolicyError):
            conversation = template.render([question, answer], [PROBE_TOOL], prompt=False)
            begin = prompt
            while not conversation.startswith(begin):  # the prompt may end in a thought that the answer lacks
                begin = begin[: max(begin.rfind("<", 0, -1), begin.rfind("\n", 0, -1), 0)]
            written = conversation.removeprefix(begin)
            if PROBE_CALL.name in written and PROBE_CALL.arguments["text"] in written:
                return written
    return None


def reads_back(call_format: CallFormat, written: str) -> bool:
    """Return whether a format reads the probe call in this text, which `call_by_template` returned."""
    _, calls = parse_message(call_format, written, [PROBE_TOOL])
    return calls == (PROBE_CALL,)


def warn_of_another_format(call_format: CallFormat, tokenizer: Any, template_options: dict[str, Any] | None) -> None:
    """Issue a CallFormatWarning if the named format does not read the calls that the chat template writes."""
    written = call_by_template(tokenizer, template_options)
    if written is not None and not reads_back(call_format, written):
        warnings.warn(
            f"The call format {call_format.name} does not read calls as the chat template writes them: "
            f"{excerpt(written, 120)}. The model was probably trained on those; 'auto' takes the format that fits.",
            CallFormatWarning,
            stacklevel=2,
        )


def _as_written(factory: Any, written: str | None) -> CallFormat:
    """Return the format in the layout that the template writes, or in its first layout by default.

    Args:
        factory: a class that takes one of its `layouts`, or a function that makes the format.
    """
    formats: list[CallFormat] = [factory(**options) for options in getattr(factory, "layouts", _ONE_LAYOUT)]
    return max(formats, key=lambda form: _written_alike(form, written))  # the first of equals


def _written_alike(call_format: CallFormat, written: str | None) -> int:
    """Return the length of the format's own call if the template writes the same text, else 0."""
    try:
        rendered = call_format.render((PROBE_CALL,))
    except ValueError:
        return 0
    return len(rendered) if written is not None and rendered in written else 0


def _format_that_reads(written: str, tokenizer: Any) -> CallFormat:
    """Return a format that reads the template's call, preferably one that writes the call the same way."""
    candidates = sorted(names("call_formats"), key=lambda name: name != FALLBACK)
    formats = [_as_written(load("call_formats", name), written) for name in candidates]
    reading = [form for form in formats if reads_back(form, written)]
    if reading:
        return max(reading, key=lambda form: _written_alike(form, written))
    raise PolicyError(
        f"The chat template of {tokenizer.name_or_path or type(tokenizer).__name__} writes a call as "
        f"{excerpt(written, 120)}, which no call format reads. Name the one to use (call_format, or policy.call_format "
        f"of a recipe): {', '.join(candidates)}."
    )
