"""A tool: what the model sees of it, which arguments it takes, and how it refuses the others."""

from __future__ import annotations

import json
import math
from typing import Annotated, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from agentgym import Environment, ImagePart, TextPart, Tool, tool
from agentgym.errors import ToolDefinitionError
from agentgym.tools import WrongArguments
from agentgym.tools.arguments import replace_lone_surrogates
from agentgym.tools.definition import tools_by_name
from agentgym.tools.shown import render_output


class Point(BaseModel):
    """A position."""

    x: int
    y: int = 0


def search(
    query: str,
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
    order: Literal["newest", "best"] = "best",
    near: Point | None = None,
) -> str:
    """Search the shelf.

    Every word counts.

    Args:
        query: words to look for,
            separated by spaces.
        limit: how many to return.

    Returns:
        One title a line.
    """
    return query


SEARCH = Tool.from_function(search)


def test_the_schema_has_the_shape_of_a_function_call():
    schema = SEARCH.schema()
    assert schema["type"] == "function"
    assert schema["function"]["name"] == "search"
    assert schema["function"]["description"] == "Search the shelf. Every word counts."
    parameters = schema["function"]["parameters"]
    assert parameters["required"] == ["query"]
    assert parameters["additionalProperties"] is False
    query = {"type": "string", "description": "words to look for, separated by spaces."}
    assert parameters["properties"]["query"] == query
    limit = parameters["properties"]["limit"]
    assert (limit["minimum"], limit["maximum"], limit["default"]) == (1, 50, 10)
    assert parameters["properties"]["order"]["enum"] == ["newest", "best"]
    json.dumps(schema)


def test_the_signature_is_one_line_for_error_messages():
    assert SEARCH.signature(choices=False) == (
        "search(query: string, limit: integer = 10, order: string = 'best', near: any = None)"
    )


def test_the_signature_shows_the_values_of_an_enum():
    """An agent that passed a wrong one reads here which there are."""
    assert "order: 'newest' | 'best' = 'best'" in SEARCH.signature()


def test_arguments_are_converted_to_their_types():
    valid = SEARCH.validate({"query": "war", "limit": "3", "near": {"x": "1"}})
    assert valid == {"query": "war", "limit": 3, "near": Point(x=1)}
    assert SEARCH.validate({"query": "war"}) == {"query": "war"}  # defaults are the function's own


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "argument 'query' is missing"),
        ({"query": "war", "limt": 3}, "there is no argument 'limt'"),
        ({"query": ["war"]}, "argument 'query': Input should be a valid string (you gave ['war'])"),
        ({"query": "war", "limit": 0}, "argument 'limit': Input should be greater than or equal to 1 (you gave 0)"),
        ({"query": "war", "limit": "few"}, "argument 'limit'"),
        ({"query": "war", "order": "worst"}, "'newest' or 'best'"),
        ({"query": "war", "near": {"x": 1, "y": "up"}}, "argument 'near.y'"),
        ({"query": None}, "argument 'query'"),
        ({"query": "\ud800"}, "'query'"),
        ([], "Input should be a valid dictionary"),
        ("everything", "Input should be a valid dictionary"),
        (None, "Input should be a valid dictionary"),
    ],
)
def test_a_refusal_names_the_field_what_was_given_and_what_is_expected(arguments, says):
    with pytest.raises(WrongArguments) as caught:
        SEARCH.validate(arguments)
    assert says in str(caught.value)
    assert "search" in str(caught.value)


def measure(value: float, more: dict[str, float] | None = None, anything: object = None) -> str:
    """Measure."""
    return str(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "nan", "Infinity", 10**400])
def test_a_number_that_is_none_is_refused(value):
    with pytest.raises(WrongArguments, match="argument 'value'"):
        Tool.from_function(measure).validate({"value": value})
    with pytest.raises(WrongArguments, match=r"argument 'more\.a'"):
        Tool.from_function(measure).validate({"value": 1, "more": {"a": value}})


def test_endless_nesting_is_refused_and_not_a_crash():
    value: object = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(WrongArguments, match=r"nested too deeply|valid number"):
        Tool.from_function(measure).validate({"value": 1, "anything": value})
    with pytest.raises(WrongArguments):
        Tool.from_function(measure).validate({"value": value})


def test_half_a_character_is_refused_wherever_it_hides():
    for hidden in ("\udc00", ["a", "\ud800"], {"\udfff": 1}, {"a": {"b": ("c", "\ud83d")}}):
        with pytest.raises(WrongArguments, match="'anything' contains half a character"):
            Tool.from_function(measure).validate({"value": 1, "anything": hidden})
    assert Tool.from_function(measure).validate({"value": 1, "anything": "naïve ☂ 🌂"})


def test_a_refusal_stays_short_whatever_was_given():
    """The agent writes the argument's name and value; neither may flood its own context."""
    for arguments in ({"query": 1, "k" * 10**6: 1}, {"query": ["x" * 10**6]}, {f"a{n}": n for n in range(10_000)}):
        with pytest.raises(WrongArguments) as caught:
            SEARCH.validate(arguments)
        assert len(str(caught.value)) < 1_500


plain = st.none() | st.booleans() | st.floats() | st.text()


@settings(max_examples=40, deadline=None)
@given(st.recursive(plain, lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_no_json_like_value_does_anything_but_pass_or_be_refused(value):
    for arguments in (value, {"query": value}, {"query": "a", "near": value}):
        try:
            SEARCH.validate(arguments)
        except WrongArguments as error:
            str(error).encode()


def test_a_tool_without_a_docstring_is_refused():
    def nameless(x: int) -> int:
        return x

    with pytest.raises(ToolDefinitionError, match=r"'.*nameless' has no docstring"):
        Tool.from_function(nameless)


def test_a_tool_without_type_hints_is_refused():
    def guess(x, y: int = 0):
        """Guess."""

    with pytest.raises(ToolDefinitionError, match=r"no type hint for 'x'.*`x: str`"):
        Tool.from_function(guess)


def test_a_tool_with_arguments_no_model_can_name_is_refused():
    def star(*words: str) -> str:
        """Join."""
        return "".join(words)

    def keywords(**words: str) -> str:
        """Join."""
        return "".join(words)

    def positional(word: str, /) -> str:
        """Join."""
        return word

    for function in (star, keywords, positional):
        with pytest.raises(ToolDefinitionError, match="parameters that have a name"):
            Tool.from_function(function)


def test_a_docstring_that_describes_what_is_not_there_is_refused():
    def look(shelf: str) -> str:
        """Look.

        Args:
            shelv: a typing error.
        """
        return shelf

    with pytest.raises(ToolDefinitionError, match=r"describes \['shelv'\]"):
        Tool.from_function(look)


def test_a_hint_that_cannot_be_resolved_or_described_is_refused():
    def unknown(shelf: Nowhere) -> str:  # noqa: F821  the point
        """Look."""
        return ""

    def undescribable(shelf: type(lambda: 0)) -> str:
        """Look."""
        return ""

    undescribable.__annotations__["shelf"] = type(object())
    with pytest.raises(ToolDefinitionError, match="cannot be resolved: name 'Nowhere'"):
        Tool.from_function(unknown)

    class Strange:
        pass

    undescribable.__annotations__["shelf"] = Strange
    with pytest.raises(ToolDefinitionError, match="has no JSON Schema"):
        Tool.from_function(undescribable)


@pytest.mark.parametrize("options", [{"timeout_s": 0}, {"max_output_chars": -1}, {"finale": True}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ToolDefinitionError):
        tool(**options)


class Base:
    @tool
    def read(self, shelf: str) -> str:
        """Read."""
        return shelf

    @tool(final=True, name="finish")
    def end(self) -> str:
        """End."""
        return ""


class Derived(Base):
    @tool(timeout_s=1.0)
    def read(self, shelf: str) -> str:
        """Read again."""
        return shelf

    def not_a_tool(self) -> str:
        return ""


class Without(Base):
    def read(self, shelf: str) -> str:
        return shelf


def test_tools_are_inherited_overridden_and_dropped_as_methods_are():
    assert list(Tool.collect(Base)) == ["read", "finish"]
    assert Tool.collect(Derived)["read"].description == "Read again."
    assert Tool.collect(Derived)["finish"].options.final
    assert list(Tool.collect(Without)) == ["finish"]


def test_two_collect_tools_one_name_are_refused():
    class Twice(Base):
        @tool(name="finish")
        def stop(self) -> str:
            """Stop."""
            return ""

    with pytest.raises(ToolDefinitionError, match="two tools named 'finish'"):
        Tool.collect(Twice)


def test_a_static_or_class_method_is_refused():
    class Static:
        @tool
        @staticmethod
        def look() -> str:
            """Look."""
            return ""

    with pytest.raises(ToolDefinitionError, match="look is a staticmethod"):
        Tool.collect(Static)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        (None, ""),
        (3, "3"),
        (True, "true"),
        ([1, "a"], '[1,"a"]'),
        ({"ä": None}, '{"ä":null}'),
        ([TextPart("a"), ImagePart("b")], (TextPart("a"), ImagePart("b"))),
        (TextPart("a"), (TextPart("a"),)),
        ([], "[]"),
    ],
)
def test_what_a_tool_returns_becomes_content(value, content):
    assert render_output(value, 1_000) == (content, False)


def test_an_output_is_cut_where_its_limit_says_and_says_so():
    content, truncated = render_output("x" * 100_000_000, 10)  # 100 MB
    assert truncated
    assert content == "x" * 10 + "\n[output cut: 10 of 100000000 characters are shown]"
    assert render_output("x" * 10, 10) == ("x" * 10, False)


def test_half_a_character_in_an_output_is_replaced():
    """No tokenizer, ledger or socket would take it; a whole pair is put together."""
    assert render_output("a\ud800b", 100) == ("a\ufffdb", False)
    assert render_output({"k": "\udc00"}, 100) == ('{"k":"\ufffd"}', False)
    assert render_output("\ud83c\udf02" + "\ud83c", 100) == ("🌂\ufffd", False)


def test_halves_of_characters_are_replaced_in_all_of_a_value_and_joined_where_they_fit():
    given = {"a\ud800": [("\udc00b", 1), None], "c": "\ud83d\ude00", "d": "\u00e9"}
    assert replace_lone_surrogates(given) == {"a\ufffd": [("\ufffdb", 1), None], "c": "\U0001f600", "d": "\u00e9"}


def test_an_output_that_is_no_data_is_an_error_of_ours():
    with pytest.raises(TypeError):
        render_output(object(), 100)


def test_a_function_that_is_not_marked_is_no_tool():
    with pytest.raises(ToolDefinitionError, match=r"Shop was given <function.*Mark the function with @tool"):
        tools_by_name([search], "Shop")


@pytest.mark.parametrize("name", ["close", "reset", "respond", "usage"])
def test_a_tool_that_would_replace_a_method_of_every_environment_is_refused(name):
    def act(self, door: str) -> str:
        """Act on a door."""
        return door

    with pytest.raises(
        ToolDefinitionError,
        match=rf"House.{name} cannot be a tool, because agentgym uses the name {name!r}.*name={name!r}",
    ):
        type("House", (Environment,), {name: tool(act)})
    house = type("House", (Environment,), {f"{name}_door": tool(name=name)(act)})
    assert list(house.tools) == [name]
