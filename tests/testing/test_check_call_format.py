"""check_call_format passes a sound format and names the fault of every broken one."""

from __future__ import annotations

import math
import re

import pytest
from breaches import breach

from agentgym import Call
from agentgym.policy.formats.reader import CallWalk
from agentgym.testing import check_call_format


class Plain:
    """name(text), one a line."""

    name = "plain"
    stop: tuple[str, ...] = ()

    def render(self, calls):
        if any("\n" in call.arguments["text"] for call in calls):
            raise ValueError("a call is one line")
        return "\n".join(f"!{call.name} {call.arguments['text']}" for call in calls)

    def parse(self, text):
        walk = CallWalk(text, re.compile("^!", re.MULTILINE), "!name text")
        while mark := walk.next_call():
            line = text[mark.end() :].partition("\n")[0]
            name, _, rest = line.partition(" ")
            walk.calls.append(Call(name, {"text": rest}, f"call_{len(walk.calls)}"))
            walk.at = mark.end() + len(line)
        return walk.message()


def test_a_sound_call_format_passes():
    check_call_format(Plain())
    check_call_format("hermes")


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"parse": lambda text: (text, [])}, "expected text and a tuple"),
        ({"parse": lambda text: ("", ())}, "Plain speech was read as ''"),
        ({"parse": lambda text: (text, (Call("a")[0],))}, "parse raised TypeError"),
        ({"stop": "</call>"}, "a tuple of texts"),
        ({"parse": lambda text: (text, (Call("", error=" "),))}, "no error text that teaches"),
        ({"parse": lambda text: (text, (Call("look", {"text": math.nan}),))}, "no JSON"),
    ],
)
def test_a_call_format_that_breaks_the_contract_is_caught(change, fragment):
    form = Plain()
    for name, value in change.items():
        setattr(form, name, value)
    with breach(fragment):
        check_call_format(form)
