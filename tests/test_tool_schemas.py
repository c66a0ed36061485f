"""A tool made from a JSON Schema: what the model sees of it, and how it refuses arguments."""

from __future__ import annotations

import math
from functools import cache
from typing import Annotated

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from agentgym import Tool
from agentgym.errors import ToolDefinitionError
from agentgym.tools import WrongArguments


def search(query: str, limit: Annotated[int, Field(ge=1, le=50)] = 10) -> str:
    """Search the shelf."""
    return query


SEARCH = Tool.from_function(search)
plain = st.none() | st.booleans() | st.floats() | st.text()

BOOK_SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 2, "description": "words to look for"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
        "order": {"enum": ["newest", "best"]},
        "near": {"$ref": "#/$defs/place"},
        "tags": {"type": "array", "items": {"type": ["string", "null"]}, "maxItems": 2},
        "size": {"oneOf": [{"enum": ["S", "L"]}, {"$ref": "#/$defs/place"}]},
        "price": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    },
    "required": ["query"],
    "$defs": {"place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
}


@cache
def books() -> Tool:
    return Tool.from_schema("find-books", "Find books.", BOOK_SCHEMA, lambda arguments: arguments, timeout_s=5.0)


def test_a_tool_from_a_schema_shows_it_to_the_model_as_it_is_and_closes_it():
    function = books().schema()["function"]
    assert (function["name"], function["description"]) == ("find-books", "Find books.")
    assert function["parameters"] == {**BOOK_SCHEMA, "additionalProperties": False}
    assert "additionalProperties" not in BOOK_SCHEMA  # the author's own copy is not touched
    assert books().options.timeout_s == 5.0
    assert (
        books().signature().startswith("find-books(query: string, limit: integer = 10, order: 'newest' | 'best' = None")
    )
    assert books().validate({"query": "war", "limit": 3, "near": {"x": 1}}) == {
        "query": "war",
        "limit": 3,
        "near": {"x": 1},
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "argument 'query' is missing"),
        ({"query": "war", "limt": 3}, "there is no argument 'limt'"),
        ({"query": ["war"]}, "argument 'query': Input should be a valid string (you gave ['war'])"),
        ({"query": "a"}, "argument 'query': String should have at least 2 characters (you gave 'a')"),
        ({"query": "war", "limit": 0}, "argument 'limit': Input should be greater than or equal to 1 (you gave 0)"),
        ({"query": "war", "limit": "few"}, "argument 'limit': Input should be a valid integer (you gave 'few')"),
        ({"query": "war", "limit": True}, "argument 'limit': Input should be a valid integer (you gave True)"),
        ({"query": "war", "order": "worst"}, "argument 'order': Input should be 'newest' or 'best' (you gave 'worst')"),
        ({"query": "war", "near": {"x": "up"}}, "argument 'near.x': Input should be a valid number"),
        ({"query": "war", "near": {}}, "argument 'near.x' is missing"),
        ({"query": "war", "tags": [1]}, "argument 'tags.0': Input should be a valid string or null"),
        ({"query": "war", "tags": ["a"] * 3}, "argument 'tags': List should have at most 2 items"),
        ({"query": "war", "price": "low"}, "argument 'price': Input should be one of: number, null"),
        ({"query": "war", "size": 3}, "argument 'size': Input should fit exactly one of the 2 shapes"),
        ({"query": "war", "price": math.nan}, "argument 'price': Input should be a finite number (you gave nan)"),
        ({"query": "\ud800x"}, "'query' contains half a character"),
        ([], "Input should be a valid dictionary"),
        (None, "Input should be a valid dictionary"),
    ],
)
def test_a_tool_from_a_schema_refuses_with_the_sentences_of_other_tools(arguments, says):
    with pytest.raises(WrongArguments) as caught:
        books().validate(arguments)
    assert says in str(caught.value)
    assert str(caught.value).startswith("Wrong arguments for 'find-books'")


@pytest.mark.parametrize(
    "arguments", [{}, {"query": "war", "limt": 3}, {"query": ["war"]}, {"query": "war", "limit": 0}, [], None]
)
def test_both_kinds_of_tool_say_the_same_about_the_same_mistake(arguments):
    limit = {"type": "integer", "minimum": 1, "maximum": 50, "default": 10}
    twin = Tool.from_schema(
        "search",
        "Search.",
        {"properties": {"query": {"type": "string"}, "limit": limit}, "required": ["query"]},
        lambda arguments: "",
    )
    refusals = []
    for each in (SEARCH, twin):
        with pytest.raises(WrongArguments) as caught:
            each.validate(arguments)
        refusals.append(str(caught.value).partition(" Expected")[0])
    assert refusals[0] == refusals[1]


def test_a_refusal_by_a_schema_stays_short_and_endless_nesting_is_no_crash():
    for arguments in ({"query": 1, "k" * 10**6: 1}, {"query": ["x" * 10**6]}, {f"a{n}": n for n in range(10_000)}):
        with pytest.raises(WrongArguments) as caught:
            books().validate(arguments)
        assert len(str(caught.value)) < 1_500
    value: object = 1
    for _ in range(100_000):
        value = [value]
    anything = Tool.from_schema("anything", "Take anything.", {"properties": {"value": {}}}, lambda arguments: "")
    with pytest.raises(WrongArguments, match="nested too deeply"):
        anything.validate({"value": value})


@settings(max_examples=40, deadline=None)
@given(st.recursive(plain, lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_no_json_like_value_does_anything_but_pass_a_schema_or_be_refused(value):
    for arguments in (value, {"query": value}, {"query": "ab", "near": value}, {"query": "ab", "tags": value}):
        try:
            books().validate(arguments)
        except WrongArguments as error:
            str(error).encode()


def test_a_schema_that_says_what_becomes_of_other_arguments_is_left_so():
    open_schema = {"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}
    assert Tool.from_schema("free", "Free.", open_schema, print).validate({"a": 1, "b": "x"}) == {"a": 1, "b": "x"}
    with pytest.raises(WrongArguments, match=r"argument 'b': Input should be a valid string \(you gave 2\)"):
        Tool.from_schema("free", "Free.", open_schema, print).validate({"b": 2})


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "array"}, "must be the JSON Schema of an object"),
        ({"properties": ["a"]}, "must be the JSON Schema of an object"),
        ({"properties": {"a": {"type": "strin"}}}, "'strin' is not valid"),
        ({"properties": {"a": {"$ref": "https://example.org/a.json"}}}, "refers to another document"),
        ({"properties": {"a": {"$ref": "#/$defs/gone"}}}, "'#/\\$defs/gone', which does not exist"),
        ({"properties": {"a": {"type": "string", "pattern": "("}}}, "'\\(' is not a 'regex'"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_when_the_tool_is_made(schema, says):
    with pytest.raises(ToolDefinitionError, match=rf"'broken'.*{says}"):
        Tool.from_schema("broken", "Broken.", schema, print)
