"""Calls in OpenAI's Harmony, which gpt-oss speaks: a message to `functions.query` in the channel `commentary`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agentgym import Call, thoughts
from agentgym.policy import formats

MESSAGE, END, CALL, RETURN, START = "<|message|>", "<|end|>", "<|call|>", "<|return|>", "<|start|>"
EXAMPLE = '<|channel|>commentary to=functions.tool_name <|constrain|>json<|message|>{"argument": "value"}<|call|>'
_END = re.compile("|".join(map(re.escape, (END, CALL, RETURN, START))))
_TO = re.compile(r"to=(?:functions\.)?([^\s<]{1,300})")


class Harmony:
    """Messages that each have a channel: thoughts in `analysis`, calls in `commentary`, speech in `final`.

    `parse` returns a thought between `<think>` and `</think>`, as other formats do. Nothing in it is a call.
    """

    name = "harmony"
    stop: tuple[str, ...] = ()
    control = (MESSAGE, END, START, "<|channel|>", "<|constrain|>")

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return one line of JSON Schema per tool, and the form of a call."""
        lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
        return f"# Tools\n\nYou may call these functions:\n{lines}\nWrite each call like this: {EXAMPLE}"

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text. The end mark of the last call is left out: the end of the turn adds it."""
        bodies = [
            f" to=functions.{call.name}<|channel|>commentary json{MESSAGE}{_json(call.arguments)}" for call in calls
        ]
        return f"{CALL}{START}assistant".join(bodies)

    def compose(self, text: str, calls: tuple[Call, ...]) -> str:
        """Return a whole message: thoughts in `analysis`, words in `final`, or in `commentary` before calls."""
        thought, speech = thoughts.split_thoughts(text)
        messages = [f"<|channel|>analysis{MESSAGE}{thought}"] if thought else []
        if speech:
            messages.append(f"<|channel|>{'commentary' if calls else 'final'}{MESSAGE}{speech}")
        before = f"{END}{START}assistant".join(messages)
        if not calls:
            return before
        return before + f"{END}{START}assistant" * bool(messages) + self.render(calls)

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat. A text without any channel is speech."""
        speech, calls, at = list[str](), list[Call](), 0
        while (begin := text.find(MESSAGE, at)) >= 0:
            if thought := thoughts.OPENING.search(text, at, begin):  # a thought in another model's form
                end_of = thoughts.end_of_thought(text, thought)
                speech.append(text[at:end_of])
                at = end_of
                continue
            header, begin = text[at:begin], begin + len(MESSAGE)
            end = _END.search(text, begin)
            body = text[begin : end.start() if end else len(text)]
            at = len(text) if end is None else end.start() if end.group() == START else end.end()
            if "to=" in header and "to=user" not in header:
                if len(calls) >= formats.MAX_CALLS:
                    formats.add_too_many_calls_error(calls, 1 + text.count("to=functions", at), EXAMPLE)
                    at = len(text)
                    break
                calls.append(_read(header, body, len(calls)))
            else:
                speech.append(f"<think>{body}</think>" if "analysis" in header else body)
        rest = text[at:].strip()
        if not speech and not calls and (to := _TO.search(thoughts.split_thoughts(rest)[1])):
            problem = f"{to.group()} is not followed by {MESSAGE} and the arguments."
            calls.append(formats.malformed_call(0, problem, EXAMPLE))
        return "".join([*speech, rest]).strip(), tuple(calls)


def _read(header: str, body: str, index: int) -> Call:
    to, name = _TO.search(header), ""
    try:
        if to is None:
            raise formats.Malformed(f"The call names no recipient; its header is {formats.excerpt(header.strip())}.")
        name = formats.named(to[1])
        return Call(name, formats.strict_object(body), f"call_{index}")
    except formats.Malformed as malformed:
        return formats.malformed_call(index, str(malformed), EXAMPLE, name)


def _json(value: Any) -> str:
    """Return JSON in which special tokens are escaped."""
    return json.dumps(value, ensure_ascii=False).replace("<|", "\\u003c|")
