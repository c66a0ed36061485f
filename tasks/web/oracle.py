"""Scripted players of the pages: they read what is shown, as an agent does, and act on elements by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from agentgym.messages import Call, Message
from agentgym.task import Task

Script = Callable[[Sequence[Message]], Message]
_GIVE_UP = Call("answer", {"text": ""})


def oracle(task: Task) -> Script:
    """Brings about what is asked, and ends."""
    return player(json.loads(task.truth["plan"]))


def imperfect_oracle(task: Task) -> Script:
    """Uses the pages well, to the wrong end."""
    return player(json.loads(task.truth["wrong"]))


def player(plan: Sequence[Sequence[str]]) -> Script:
    """Follows steps as `plan.Step` describes them, one call a turn; gives up where an element is not shown.

    It says which element it means before it gives its number: who learns from it finds first the one, then the other.
    """
    steps = list(plan)

    def script(messages: Sequence[Message]) -> Message:
        kind, *rest = _next_step(steps, messages) or ("answer", "")
        if kind == "answer":
            return _say(Call("answer", {"text": rest[0]} if rest[0] else {}))
        page = messages[-1].text
        label = rest[0]
        number = find(page, label)
        if number is None and kind == "seek":
            number = find(page, label := rest[1])
        if number is None:
            return _say(_GIVE_UP)
        arguments: dict[str, Any] = {"element": number}
        if kind in ("type", "select"):
            arguments["text" if kind == "type" else "option"] = rest[1]
        return _say(Call("click" if kind == "seek" else kind, arguments), label)

    return script


def _next_step(steps: Sequence[Sequence[str]], messages: Sequence[Message]) -> Sequence[str] | None:
    """The first step that the conversation has not done yet, None after the last. To seek takes several turns."""
    done = 0
    for before, said in pairwise(messages):
        if said.role == "assistant" and done < len(steps):
            kind, label, *_ = steps[done]
            done += kind != "seek" or find(before.text, label) is not None
    return steps[done] if done < len(steps) else None


def find(page: str, label: str) -> int | None:
    """The number of the first element whose line begins with a label, such as `button "Send"`."""
    found = re.search(rf"^ *\[(\d+)\] {re.escape(label)}(?: |$)", page, re.MULTILINE)
    return int(found[1]) if found else None


def _say(call: Call, words: str = "") -> Message:
    return Message("assistant", words, (call,))
