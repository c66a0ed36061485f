"""Markup calls: one argument between tags or in a fence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.formats.tags import Tags
from agentgym.messages import Call
from agentgym.policy import CallFormat
from agentgym.policy.formats.contract import MAX_CALLS
from agentgym.registry import load, names

TAGS = Tags()
pieces = st.sampled_from(
    ["<sql>", "</sql>", "<answer>", "</answer>", "```python\n", "\n```", "```", "</call>", "<", "x", "\n"]
)


def test_every_registered_call_format_is_one():
    """The registry is what recipes name; each must work without options."""
    assert {"hermes", "tags"} <= set(names("call_formats"))
    for name in names("call_formats"):
        call_format = load("call_formats", name)()
        assert isinstance(call_format, CallFormat)
        assert call_format.name == name
        assert call_format.parse("") == ("", ())


def test_tags_and_fences_become_calls_in_order_with_the_text_around_as_content():
    written = "Look: <sql> SELECT 1 </sql> then\n```python\nprint(1)\n\n```\ndone <answer>4<2</answer>"
    content, calls = TAGS.parse(written)
    assert content == "Look:  then\n\ndone"
    assert calls == (
        Call("query", {"sql": "SELECT 1"}, "call_0"),
        Call("run_python", {"code": "print(1)\n"}, "call_1"),
        Call("answer", {"text": "4<2"}, "call_2"),
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["query", "search", "answer", "run_python", "fly"]),
            st.dictionaries(
                st.sampled_from(["sql", "query", "text", "code"]),
                st.integers() | st.lists(pieces | st.text(max_size=3)).map("".join),
                max_size=2,
            ),
        ),
        max_size=5,
    )
)
def test_any_call_of_any_tool_is_rendered_and_parsed_back_exactly(written):
    calls = tuple(Call(tool, arguments, f"call_{index}") for index, (tool, arguments) in enumerate(written))
    assert TAGS.parse(TAGS.render(calls)) == ("", calls)


def test_a_call_uses_its_own_tag_where_that_says_the_same_and_the_general_one_where_not():
    assert TAGS.render((Call("query", {"sql": "SELECT 1"}),)) == "<sql>SELECT 1</sql>"
    assert TAGS.render((Call("query", {"sql": "</sql>"}),)) == '<call tool="query">{"sql": "</sql>"}</call>'
    assert TAGS.render((Call("query", {"sql": " 1"}),)) == '<call tool="query">{"sql": " 1"}</call>'
    assert TAGS.render((Call("query", {"sql": "1", "limit": 3}),)).startswith('<call tool="query">')
    assert TAGS.render((Call("tables"),)) == '<call tool="tables">{}</call>'


@given(st.lists(pieces, max_size=60).map("".join))
def test_no_text_makes_parse_raise(written):
    _, calls = TAGS.parse(written)
    assert [call.id for call in calls] == [f"call_{index}" for index in range(len(calls))]


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("<sql>SELECT 1", "</sql> is missing"),
        ("```python\nprint(1)", "``` is missing"),
        ("<sql>  </sql>", "is empty"),
        ("SELECT 1</sql>", "without its opening tag"),
        ("{}</call>", "without its opening tag"),
        ('<call tool="fly">{</call>', "not valid JSON"),
        ('<call tool="fly">{}', "</call> is missing"),
        ("<sql>" + "x" * 200_000 + "</sql>", "at most 100000"),
    ],
)
def test_a_malformed_call_is_answered_with_what_is_wrong_and_the_right_shape(written, says):
    _, calls = TAGS.parse(written)
    assert len(calls) == 1
    assert says in str(calls[0].error)
    assert "Write it like this: " in str(calls[0].error)


def test_of_two_calls_the_good_one_survives_the_broken_one():
    _, calls = TAGS.parse("<sql></sql><answer>4</answer>")
    assert [call.error is None for call in calls] == [False, True]


def test_a_flood_of_calls_is_bounded():
    assert len(TAGS.parse("<sql>1</sql>" * 500)[1]) == MAX_CALLS + 1


def test_a_tool_without_arguments_has_an_empty_tag():
    tags = Tags({"tables": ("tables", None)})
    assert tags.parse("<tables></tables>")[1] == (Call("tables"),)
    assert tags.render((Call("tables"),)) == "<tables></tables>"
    assert "takes no argument" in str(tags.parse("<tables>x</tables>")[1][0].error)


def test_impossible_tag_names_are_refused():
    for wrong in ({"<sql>": ("query", "sql")}, {"call": ("query", "sql")}, {}):
        with pytest.raises(ValueError, match="Tags needs tags such as 'sql' or '```python"):
            Tags(wrong)


def test_a_turn_can_be_made_to_stop_after_its_first_call():
    tags = Tags({"sql": ("query", "sql"), "```python": ("run", "code")}, stop_after_call=True)
    assert tags.stop == ("</sql>", "\n```", "</call>")
