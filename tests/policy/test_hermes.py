"""Hermes calls: what is written is read back, and whatever is malformed teaches."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.messages import Call
from agentgym.policy import CallFormat, Hermes
from agentgym.policy.formats.contract import MAX_CALLS
from agentgym.policy.formats.hermes import CLOSE, EXAMPLE, OPEN

HERMES = Hermes()
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
pieces = st.sampled_from(
    [
        OPEN,
        CLOSE,
        '{"name": "q", "arguments": ',
        "{}",
        "}",
        '"',
        "\\",
        "[",
        "]",
        ":",
        ",",
        "NaN",
        "1e999",
        "x",
        "\\ud800",
        "<think>",
        "</think>",
        "null",
        "\n",
        '{"name": "q"}',
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


def only(written: str) -> Call:
    """The single call in a text."""
    _, calls = HERMES.parse(written)
    assert len(calls) == 1
    return calls[0]


def test_it_is_a_call_format():
    assert isinstance(HERMES, CallFormat)


@given(st.lists(st.tuples(st.text("abc_", min_size=1), st.dictionaries(text, values, max_size=3)), max_size=4))
def test_what_is_rendered_is_parsed_back_exactly(written):
    calls = tuple(Call(name, arguments, f"call_{index}") for index, (name, arguments) in enumerate(written))
    for writer in (HERMES, Hermes(newlines=True)):
        assert HERMES.parse(writer.render(calls)) == ("", calls)


@given(st.lists(pieces | text, max_size=40).map("".join))
def test_no_text_makes_parse_raise_and_every_opening_tag_is_answered(written):
    _, calls = HERMES.parse(written)
    assert [call.id for call in calls] == [f"call_{index}" for index in range(len(calls))]
    assert all(call.name for call in calls if call.error is None)
    if OPEN in written and "<think>" not in written:
        assert calls
    json.dumps([call.arguments for call in calls], ensure_ascii=False, allow_nan=False).encode()


def test_text_around_calls_is_content_and_calls_keep_their_order():
    second = '{"name": "query", "arguments": {"sql": "1"}}'
    content, calls = HERMES.parse(f'I look. {OPEN}{{"name": "tables"}}{CLOSE}\n{OPEN}\n{second}\n{CLOSE} ok')
    assert content == "I look. \n ok"
    assert calls == (Call("tables", {}, "call_0"), Call("query", {"sql": "1"}, "call_1"))


def test_plain_text_holds_no_call():
    assert HERMES.parse("The answer is 42.") == ("The answer is 42.", ())


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('{"name": "query", "arguments": {"sql": "SELECT 1"}', "not valid JSON"),
        ("{'name': 'query'}", "not valid JSON"),
        ("", "not valid JSON"),
        ('{"name": "query", "arguments": "{}"}', "is a string"),
        ('{"name": "query", "arguments": [1]}', "must be a JSON object, not '[1]'"),
        ('{"name": "query", "sql": "SELECT 1"}', "no \"arguments\", but 'sql'"),
        ('{"arguments": {}}', 'no "name"'),
        ('{"name": 3, "arguments": {}}', 'no "name"'),
        ('["query"]', "not a list"),
        ("null", "not null"),
        ('{"name": "query", "arguments": {"x": NaN}}', "NaN is not a JSON number"),
        ('{"name": "query", "arguments": {"x": -Infinity}}', "-Infinity is not a JSON number"),
        ('{"name": "query", "arguments": {"x": 1e999}}', "too large"),
        ('{"name": "query", "arguments": {"x": ' + "1" * 5000 + "}}", "too long"),
        ('{"name": "query", "arguments": {"x": "\\ud800"}}', "surrogate"),
        ("[" * 3000, "nested too deeply"),
        ('{"name": "query", "arguments": {"x": "' + "y" * 200_000 + '"}}', "at most 100000"),
        ('{"name": "' + "q" * 1000 + '"}', "1000 characters"),
    ],
)
def test_a_malformed_call_is_answered_with_what_is_wrong_and_the_right_shape(body, says):
    call = only(OPEN + body + CLOSE)
    assert call.error is not None
    assert says in call.error
    assert call.error.endswith(EXAMPLE)
    assert len(call.error) < 500


@pytest.mark.parametrize(
    "written",
    [OPEN + '{"name": "tables"}', "x" + OPEN, '{"name": "tables"}' + CLOSE, '{"name": "query", "arguments": {},}'],
    ids=["never closed", "nothing in it", "never opened", "no tags, no JSON"],
)
def test_missing_tags_are_malformed_calls_and_no_final_answer(written):
    error = only(written).error
    assert error is not None
    assert OPEN in error


def test_of_two_calls_the_good_one_survives_the_broken_one():
    good = '{"name": "query", "arguments": {"sql": "SELECT 1"}}'
    for malformed_call in ("{broken", "[" * 3000, '{"name": "query", "arguments": {"sql": "SELECT'):
        _, calls = HERMES.parse(f"{OPEN}{good}{CLOSE}{OPEN}{malformed_call}{CLOSE}")
        assert [call.error is None for call in calls] == [True, False]
        _, calls = HERMES.parse(f"{OPEN}{malformed_call}{CLOSE}{OPEN}{good}{CLOSE}")
        assert [call.error is None for call in calls] == [False, True], malformed_call


def test_a_call_that_lacks_its_closing_tag_does_not_swallow_the_next():
    _, calls = HERMES.parse(f'{OPEN}{{"name": "a"}}{OPEN}{{"name": "b"}}{CLOSE}')
    assert [call.error is None for call in calls] == [False, True]
    assert calls[1].name == "b"


def test_arguments_may_hold_the_tags_themselves():
    body = json.dumps({"name": "write", "arguments": {"text": f'see {OPEN} and {CLOSE} "{CLOSE}"'}})
    assert only(OPEN + body + CLOSE).arguments == {"text": f'see {OPEN} and {CLOSE} "{CLOSE}"'}


def test_a_call_inside_a_thought_is_not_run():
    content, calls = HERMES.parse(f'<think>maybe {OPEN}{{"name": "a"}}{CLOSE}</think>{OPEN}{{"name": "b"}}{CLOSE}')
    assert [call.name for call in calls] == ["b"]
    assert content.startswith("<think>maybe")
    assert HERMES.parse(f'<think>never done {OPEN}{{"name": "a"}}{CLOSE}')[1] == ()


def test_a_flood_of_calls_is_bounded_and_the_rest_is_one_error():
    _, calls = HERMES.parse((OPEN + '{"name": "a"}' + CLOSE) * 1000)
    assert len(calls) == MAX_CALLS + 1
    assert calls[-1].error is not None
    assert f"{1000 - MAX_CALLS} more" in calls[-1].error


@pytest.mark.parametrize(
    "unit", [OPEN, OPEN + '{"', '{"name', OPEN + '"' + CLOSE, '"' + CLOSE, "[", "\\", OPEN + '["', "<think>"]
)
def test_parsing_time_grows_in_proportion_to_the_text(unit):
    """Ten times the text may take ten times as long, not a hundred times; compared as work, generously."""

    def work(times: int) -> float:
        began = time.process_time()
        HERMES.parse(unit * times)
        return time.process_time() - began

    small, large = min(work(20_000) for _ in range(3)), min(work(200_000) for _ in range(2))
    assert large < 50 * max(small, 1e-3)
