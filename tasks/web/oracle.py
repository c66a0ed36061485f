"""Scripted players of the web tasks: they read the page as an agent does and act on elements by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from agentgym import Call, Message, Task

Script = Callable[[Sequence[Message]], Message]
_ICON = re.compile("[\ue000-\uf8ff] *")  # the Unicode private use area
_GIVE_UP = Call("answer", {"text": ""})


def oracle(task: Task) -> Script:
    """Do what the task asks, then answer."""
    return player(json.loads(task.truth["plan"]), task.environment)


def imperfect_oracle(task: Task) -> Script:
    """Use the pages well, but do something else than the task asks."""
    return player(json.loads(task.truth["wrong"]), task.environment)


def player(plan: Sequence[Sequence[str]], environment: str = "agentgym/web-v1") -> Script:
    """Follow steps (see `plan.Step`), one call per turn; give up if an element is not on the page.

    If the page is only partly in view, the player scrolls down until the element appears.

    The text of each message names the element before the call gives its number, so that a policy that imitates the
    player first identifies the element.
    """
    steps = list(plan)

    def script(messages: Sequence[Message]) -> Message:
        kind, *rest = _next_step(steps, messages) or ("answer", "")
        if kind == "answer":
            return say(Call("answer", {"text": rest[0]} if rest[0] else {}))
        page = messages[-1].text
        label = rest[0]
        number = find(page, label)
        if number is None and kind == "seek":
            number = find(page, label := rest[1])
        if number is None and _goes_on(page):
            return say(Call("scroll", {"direction": "down"}))
        if number is None:
            return say(_GIVE_UP)
        name = "click" if kind == "seek" else kind
        has_targets = environment == "agentgym/web-v2" and name != "select"
        arguments: dict[str, Any] = {"target" if has_targets else "element": number}
        if kind in ("type", "select"):
            arguments["text" if kind == "type" else "option"] = rest[1]
        return say(Call(name, arguments), label)

    return script


def _next_step(steps: Sequence[Sequence[str]], messages: Sequence[Message]) -> Sequence[str] | None:
    """Return the first step that is not completed yet; None after the last. A step may take several turns."""
    done = 0
    for before, message in pairwise(messages):
        if message.role == "assistant" and done < len(steps):
            kind, label, *_ = steps[done]
            done += kind == "answer" or find(before.text, label) is not None
    return steps[done] if done < len(steps) else None


def _goes_on(page: str) -> bool:
    """Return whether the page continues below the view."""
    match = re.search(r"\[in view: \d+ to (\d+) of (\d+) px.*: scroll for the rest\]$", page)
    return match is not None and int(match[1]) < int(match[2])


def find(page: str, label: str) -> int | None:
    """Return the number of the first element whose line begins with a label, such as `button "Send"`.

    Characters of icon fonts, which precede the text of many buttons, are skipped.
    """
    match = re.search(rf"^ *\[(\d+)\] {re.escape(label)}(?: |$)", _ICON.sub("", page), re.MULTILINE)
    return int(match[1]) if match else None


def say(call: Call, words: str = "") -> Message:
    """Return a message of the assistant with one call."""
    return Message("assistant", words, (call,))
