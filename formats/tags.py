"""Markup calls: `<sql>SELECT 1</sql>`, `<search>words</search>`, ```` ```python ```` fences, `<answer>42</answer>`.

A tool without its own tag, or with several arguments, is called by `<call tool="name">{"argument": 1}</call>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import Call
from agentgym.policy import formats

Target = tuple[str, str | None]  # the tool, and the argument that the text between the tags becomes (None: no argument)
FENCE = "```"
ANY = "call"  # the tag that calls any tool
DEFAULT: Mapping[str, Target] = {
    "sql": ("query", "sql"),
    "search": ("search", "query"),
    "answer": ("answer", "text"),
    "```python": ("run_python", "code"),
}


class Tags:
    """One argument per call, between tags or in a code fence, without any escaping.

    Args:
        tags: which tool each tag calls; a key is a tag's name, or ```` ```language ```` for a fence.
        stop_after_call: end a turn at the first closing tag, for models that know no end-of-turn token.
    """

    name = "tags"

    def __init__(self, tags: Mapping[str, Target] = DEFAULT, *, stop_after_call: bool = False) -> None:
        wrong = [tag for tag in tags if not re.fullmatch(r"(```)?[A-Za-z][\w-]*", tag) or tag == ANY]
        if wrong or not tags:
            raise ValueError(
                f"Tags needs tags such as 'sql' or '```python' (but not {ANY!r}), not {wrong or 'an empty mapping'}. "
                "Give a mapping from each tag to a tool and its argument, such as {'sql': ('query', 'sql')}."
            )
        self._targets = dict(tags)
        self._tag_of = {tool: tag for tag, (tool, _) in reversed(list(tags.items()))}
        openings = [re.escape(tag) + r"[ \t]*\n" if tag.startswith(FENCE) else f"<{re.escape(tag)}>" for tag in tags]
        closings = [re.escape(_closing(tag)) for tag in [*tags, ANY] if not tag.startswith(FENCE)]
        self._opening = re.compile("|".join([*openings, rf'<{ANY} tool="(?P<tool>[^"<>\n]{{1,128}})">']))
        self._lone = re.compile("|".join(closings))
        self.stop: tuple[str, ...] = tuple(map(_closing, [*tags, ANY])) if stop_after_call else ()

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """Return one line per tool: how to call it, and what it does."""
        lines = []
        for tool in (tool.get("function", tool) for tool in tools):
            tag = self._tag_of.get(tool["name"])
            if tag is not None:
                argument = self._targets[tag][1]
                shape = _wrap(tag, f"the {argument}" if argument else "").replace("\n", "\\n")
            else:
                shape = f"{_any(tool['name'], '{...}')} with {json.dumps(tool.get('parameters', {}))}"
            lines.append(f"{shape}: {tool.get('description', '')}".rstrip(": "))
        return "You may act by writing one of these:\n" + "\n".join(lines)

    def render(self, calls: tuple[Call, ...]) -> str:
        """Return calls as text: in the tool's own tag if it reads back equal, else in the tag for any tool."""
        return "\n".join(map(self._render, calls))

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat. Text between tags is stripped, code in a fence is kept unchanged."""
        reader = formats.CallWalk(text, self._opening, self._example())
        while opening_tag := reader.next_call():
            tag = ANY if opening_tag["tool"] else opening_tag.group().strip("<> \t\n")
            close = text.find(_closing(tag), opening_tag.end() - tag.startswith(FENCE))
            end = close if close >= 0 else len(text)
            body = text[opening_tag.end() : max(end, opening_tag.end())]
            reader.calls.append(self._read(tag, opening_tag["tool"], body, close >= 0, len(reader.calls)))
            reader.at = end + len(_closing(tag)) if close >= 0 else end
        if not reader.calls and (lone := self._lone.search(reader.speech)):
            reader.refuse(f"{lone.group()} stands without its opening tag before it.")
        return reader.message()

    def _read(self, tag: str, named: str | None, body: str, closed: bool, index: int) -> Call:
        tool, argument = (named, None) if named else self._targets[tag]
        example = _any(tool, '{"argument": "value"}') if named else _wrap(tag, "..." if argument else "")
        try:
            if not closed:
                closing = _closing(tag).strip()
                raise formats.Malformed(
                    f"The call is not closed: {closing} is missing after {formats.excerpt(body.strip())}."
                )
            if named:
                return Call(tool, formats.strict_object(body), f"call_{index}")
            return Call(tool, _argument(tag, tool, argument, body), f"call_{index}")
        except formats.Malformed as malformed:
            return formats.malformed_call(index, str(malformed), example, tool)

    def _render(self, call: Call) -> str:
        tag = self._tag_of.get(call.name)
        if tag is not None:
            argument = self._targets[tag][1]
            text = _wrap(tag, str(call.arguments.get(argument, "")) if argument else "")
            _, calls = self.parse(text)
            if [(parsed.name, parsed.arguments, parsed.error) for parsed in calls] == [
                (call.name, call.arguments, None)
            ]:
                return text
        body = json.dumps(call.arguments, ensure_ascii=False).replace(_closing(ANY), f"<\\/{ANY}>")
        return _any(call.name, body)

    def _example(self) -> str:
        tag, (_, argument) = next(iter(self._targets.items()))
        return _wrap(tag, "..." if argument else "")


def _argument(tag: str, tool: str, argument: str | None, body: str) -> dict[str, Any]:
    """Return the text between a tool's own tags as its arguments. Raises: Malformed."""
    if len(body) > formats.MAX_CALL_CHARS:
        raise formats.Malformed(f"The call is {len(body)} characters long; at most {formats.MAX_CALL_CHARS} are read.")
    if argument is None and body.strip():
        raise formats.Malformed(f"{tool} takes no argument, but the call has {formats.excerpt(body)}.")
    if argument is not None and not body.strip():
        raise formats.Malformed(f"The call to {tool} is empty: write the argument {argument} between the tags.")
    return {} if argument is None else {argument: body if tag.startswith(FENCE) else body.strip()}


def _closing(tag: str) -> str:
    return "\n" + FENCE if tag.startswith(FENCE) else f"</{tag}>"


def _wrap(tag: str, body: str) -> str:
    return f"{tag}\n{body}{_closing(tag)}" if tag.startswith(FENCE) else f"<{tag}>{body}{_closing(tag)}"


def _any(tool: str, body: str) -> str:
    return f'<{ANY} tool="{tool}">{body}{_closing(ANY)}'
