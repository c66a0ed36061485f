"""Which call format a model speaks: the one that reads back a call which the model's own chat template has written."""

from __future__ import annotations

import warnings
from typing import Any

from agentgym.errors import PolicyError
from agentgym.messages import Call
from agentgym.policy.formats.coercion import parse_message
from agentgym.policy.formats.contract import CallFormat, excerpt
from agentgym.registry import load, names

AUTO = "auto"
FALLBACK = "hermes"
"""For a template that writes no calls at all: the renderer then explains them to the model."""
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


class CallFormatWarning(UserWarning):
    """A call format was named that is not the one of the model's chat template."""


def call_format_for(tokenizer: Any, name: str = AUTO, template_options: dict[str, Any] | None = None) -> CallFormat:
    """Return the call format of a registered name; for "auto", the one that the tokenizer's chat template writes.

    Args:
        tokenizer: a tokenizer of transformers; it is not looked at where a name is given.
    Raises: PolicyError if the template writes calls that no registered format reads; UnknownNameError.
    """
    if name == AUTO:
        written = call_by_template(tokenizer, template_options)
        name = FALLBACK if written is None else _format_that_reads(written, tokenizer)
    call_format: CallFormat = load("call_formats", name)()
    return call_format


def call_by_template(tokenizer: Any, template_options: dict[str, Any] | None = None) -> str | None:
    """Return a call of the tool `probe` as the chat template writes it; None if it has none, or is missing."""
    from jinja2.exceptions import TemplateError

    if not tokenizer.chat_template:
        return None
    function = {"name": PROBE_CALL.name, "arguments": PROBE_CALL.arguments}
    call = {"id": "call00000", "type": "function", "function": function}  # Mistral's template wants an id like this
    question = {"role": "user", "content": "?"}
    options: dict[str, Any] = {"tools": [PROBE_TOOL], "tokenize": False} | (template_options or {})
    try:
        prompt = str(tokenizer.apply_chat_template([question], add_generation_prompt=True, **options))
        answer = {"role": "assistant", "content": "", "tool_calls": [call]}
        conversation = str(tokenizer.apply_chat_template([question, answer], **options))
    except (TemplateError, TypeError, AttributeError, KeyError):
        return None
    while not conversation.startswith(prompt):  # which may end in a thought that this answer does not have
        prompt = prompt[: max(prompt.rfind("<", 0, -1), prompt.rfind("\n", 0, -1), 0)]
    written = conversation.removeprefix(prompt)
    return written if PROBE_CALL.name in written else None


def reads_back(call_format: CallFormat, written: str) -> bool:
    """Whether a format reads from this text the call that `call_by_template` had the template write."""
    _, calls = parse_message(call_format, written, [PROBE_TOOL])
    return calls == (PROBE_CALL,)


def warn_of_another_format(call_format: CallFormat, tokenizer: Any, template_options: dict[str, Any] | None) -> None:
    """Give a CallFormatWarning if a format that was named does not read the calls that the chat template writes."""
    written = call_by_template(tokenizer, template_options)
    if written is not None and not reads_back(call_format, written):
        warnings.warn(
            f"The call format {call_format.name} does not read calls as the chat template writes them: "
            f"{excerpt(written, 120)}. The model was probably trained on those; 'auto' takes the format that fits.",
            CallFormatWarning,
            stacklevel=2,
        )


def _format_that_reads(written: str, tokenizer: Any) -> str:
    candidates = sorted(names("call_formats"), key=lambda name: name != FALLBACK)
    for name in candidates:
        if reads_back(load("call_formats", name)(), written):
            return name
    raise PolicyError(
        f"The chat template of {tokenizer.name_or_path or type(tokenizer).__name__} writes a call as "
        f"{excerpt(written, 120)}, which no call format reads. Name the one to use (call_format, or policy.call_format "
        f"of a recipe): {', '.join(candidates)}."
    )
