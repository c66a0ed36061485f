"""How a person's line becomes a call: read as data, never run."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import Call
from agentgym.cli.human import Unreadable, parse_call
from agentgym.cli.options import split_tasks
from agentgym.testing import Counter

TOOLS = Counter.tools


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("submit", Call("submit")),
        ("submit()", Call("submit")),
        ("add(3)", Call("add", {"amount": 3})),
        ("add(amount=-3)", Call("add", {"amount": -3})),
        ("query(sql=\"SELECT 'a'\", limit=2)", Call("query", {"sql": "SELECT 'a'", "limit": 2})),
        ("write(code='''def f():\n    return 1\n''')", Call("write", {"code": "def f():\n    return 1\n"})),
        ("set(on=true, off=False, nothing=null)", Call("set", {"on": True, "off": False, "nothing": None})),
        ("put(items=[1, {'a': 2.5}])", Call("put", {"items": [1, {"a": 2.5}]})),
        ('{"name": "add", "arguments": {"amount": 3}}', Call("add", {"amount": 3})),
        ('{"name": "submit"}', Call("submit")),
    ],
)
def test_a_line_is_read_as_it_was_meant(line, call):
    assert parse_call(line, TOOLS) == call


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "add(1, 2)",
        "add(amount=1, amount=2)",
        "add(1, amount=2)",
        "add(**{'amount': 1})",
        "add(open('x'))",
        "a.b()",
        "add(__import__('os').system('true'))",
        "{",
        '{"name": 3}',
        '{"name": "add", "arguments": []}',
        "1 + 1",
        "f(*[1])",
    ],
)
def test_what_is_no_call_is_refused_and_nothing_in_it_runs(line):
    with pytest.raises(Unreadable):
        parse_call(line, TOOLS)


def test_an_open_triple_quote_asks_for_another_line():
    with pytest.raises(Unreadable) as caught:
        parse_call('write(code="""def f():', TOOLS)
    assert caught.value.more


@given(st.text())
def test_no_line_at_all_brings_the_reader_down(line):
    with suppress(Unreadable):
        assert isinstance(parse_call(line, TOOLS), Call)


@given(st.text(min_size=1))
def test_any_text_survives_as_a_quoted_argument(value):
    assert parse_call(f"say({value!r:s})", {"say": _say()}) == Call("say", {"text": value})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sql/store-v1", ("sql/store-v1", "held_out")),
        ("sql/store-v1:train", ("sql/store-v1", "train")),
        ("sql/store-v1:tset", ("sql/store-v1", "tset")),
        ("./x.jsonl:train", ("./x.jsonl", "train")),
        ("C:\\x.jsonl", ("C:\\x.jsonl", "held_out")),
        ("a:b/c.jsonl", ("a:b/c.jsonl", "held_out")),
    ],
)
def test_the_split_stands_after_the_last_colon(text, expected):
    assert split_tasks(text, "held_out") == expected


def _say():
    from agentgym import Tool

    def say(text: str) -> str:
        """Say it."""
        return text

    return Tool.from_function(say)
