"""Markup calls: `<sql>SELECT 1</sql>`, `<search>words</search>`, ```` ```python ```` fences, `<answer>42</answer>`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.messages import Call
from agentgym.policy.formats.contract import MAX_CALL_CHARS, MAX_CALLS, broken, excerpt, split_reasoning, too_many

Target = tuple[str, str | None]  # the tool, and which of its arguments the text between the tags is (None: no argument)
FENCE = "```"
DEFAULT: Mapping[str, Target] = {
    "sql": ("query", "sql"),
    "search": ("search", "query"),
    "answer": ("answer", "text"),
    "```python": ("run_python", "code"),
}


class Tags:
    """One argument per call, between tags or in a code fence, without any escaping.

    Args:
        tags: what stands for which tool: a tag's name, or ```` ```language ```` for a fence.
        stop_after_call: end a turn at the first closing tag, for models that know no end-of-turn token.
    """

    name = "tags"

    def __init__(self, tags: Mapping[str, Target] = DEFAULT, *, stop_after_call: bool = False) -> None:
        wrong = [tag for tag in tags if not re.fullmatch(r"(```)?[A-Za-z][\w-]*", tag)]
        if wrong or not tags:
            raise ValueError(
                f"Tags needs names such as 'sql' or '```python', not {wrong or 'an empty mapping'}. "
                "Give a mapping like {'sql': ('query', 'sql')}: tag -> (tool, argument)."
            )
        self._targets = dict(tags)
        self._tag_of = {tool: tag for tag, (tool, _) in reversed(list(tags.items()))}
        openings = [re.escape(tag) + r"[ \t]*\n" if tag.startswith(FENCE) else f"<{re.escape(tag)}>" for tag in tags]
        closings = [re.escape(_closing(tag)) for tag in tags if not tag.startswith(FENCE)]
        self._opening = re.compile("|".join(openings))
        self._lone = re.compile("|".join(closings) or r"(?!)")
        self.stop: tuple[str, ...] = tuple(map(_closing, tags)) if stop_after_call else ()

    def explain(self, tools: Sequence[dict[str, Any]]) -> str:
        """One line a tool: its tag, and what it does. Tools without a tag are left out: they cannot be called."""
        lines = []
        for tool in (tool.get("function", tool) for tool in tools):
            if tag := self._tag_of.get(tool["name"]):
                argument = self._targets[tag][1]
                shape = _wrap(tag, f"the {argument}" if argument else "").replace("\n", "\\n")
                lines.append(f"{shape}: {tool.get('description', '')}".rstrip(": "))
        return "You may act by writing one of these:\n" + "\n".join(lines)

    def render(self, calls: tuple[Call, ...]) -> str:
        """Calls as text.

        Raises: ValueError for a call that tags cannot write: no tag for its tool, other arguments, or a
            text that holds the closing tag.
        """
        return "\n".join(map(self._render, calls))

    def parse(self, text: str) -> tuple[str, tuple[Call, ...]]:
        """See CallFormat. Text between tags is stripped, code in a fence is kept as it is."""
        reasoning, rest = split_reasoning(text)
        kept, calls, at = list[str](), list[Call](), 0
        while found := self._opening.search(rest, at):
            kept.append(rest[at : found.start()])
            if len(calls) == MAX_CALLS:
                too_many(calls, sum(1 for _ in self._opening.finditer(rest, found.start())), self._example())
                at = len(rest)
                break
            tag = found.group().strip("<> \t\n")
            close = rest.find(_closing(tag), found.end() - tag.startswith(FENCE))
            end = close if close >= 0 else len(rest)
            calls.append(self._read(tag, rest[found.end() : max(end, found.end())], close >= 0, len(calls)))
            at = end + len(_closing(tag)) if close >= 0 else end
        kept.append(rest[at:])
        said = "".join(kept).strip()
        if not calls and (lone := self._lone.search(said)):
            calls.append(broken(0, f"{lone.group()} stands without its opening tag before it.", self._example()))
        return (reasoning + said).strip(), tuple(calls)

    def _read(self, tag: str, body: str, closed: bool, index: int) -> Call:
        tool, argument = self._targets[tag]
        example = _wrap(tag, "..." if argument else "")
        if not closed:
            problem = f"The call is not closed: {_closing(tag).strip()} is missing after {excerpt(body.strip())}."
            return broken(index, problem, example, tool)
        if len(body) > MAX_CALL_CHARS:
            problem = f"The call is {len(body)} characters long; at most {MAX_CALL_CHARS} are read."
            return broken(index, problem, example, tool)
        value = body if tag.startswith(FENCE) else body.strip()
        if argument is None and not value.strip():
            return Call(tool, {}, f"call_{index}")
        if argument is None:
            return broken(index, f"{tool} takes no argument, but got {excerpt(value)}.", example, tool)
        if not value.strip():
            return broken(index, f"The call to {tool} is empty; its {argument} stands between the tags.", example, tool)
        return Call(tool, {argument: value}, f"call_{index}")

    def _render(self, call: Call) -> str:
        tag = self._tag_of.get(call.name)
        if tag is None:
            raise ValueError(f"No tag stands for the tool {call.name!r}; there are tags for {', '.join(self._tag_of)}.")
        argument = self._targets[tag][1]
        if set(call.arguments) - {argument}:
            raise ValueError(
                f"Tags write a single argument, here {argument!r}, but the call to {call.name} has "
                f"{sorted(call.arguments)}. Use a call format with named arguments, such as 'hermes'."
            )
        text = _wrap(tag, str(call.arguments.get(argument, "")) if argument else "")
        if text.find(_closing(tag)) != len(text) - len(_closing(tag)):
            raise ValueError(f"The {argument} of the call to {call.name} holds {_closing(tag)!r}, which would end it.")
        return text

    def _example(self) -> str:
        tag, (_, argument) = next(iter(self._targets.items()))
        return _wrap(tag, "..." if argument else "")


def _closing(tag: str) -> str:
    return "\n" + FENCE if tag.startswith(FENCE) else f"</{tag}>"


def _wrap(tag: str, body: str) -> str:
    return f"{tag}\n{body}{_closing(tag)}" if tag.startswith(FENCE) else f"<{tag}>{body}{_closing(tag)}"
