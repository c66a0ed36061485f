"""Defaults in the schema that a model sees are JSON, whatever type they have in Python."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel, Field

from agentgym import Call, Environment, Message, Task, Tool, tool
from agentgym.errors import ToolDefinitionError


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Point:
    x: int = 1
    when: datetime.date = datetime.date(2024, 2, 29)


class Page(BaseModel):
    title: str = "none"
    size: decimal.Decimal = decimal.Decimal("1.50")


class Titled(BaseModel):
    title: str = "x"
    settings: dict[str, str] = {"title": "y"}
    kind: Annotated[Any, Field(examples=[{"title": "z"}])] = None


CASES: list[tuple[Any, Any, Any]] = [
    (Colour, Colour.RED, "red"),
    (Level, Level.LOW, 1),
    (datetime.date, datetime.date(2024, 2, 29), "2024-02-29"),
    (datetime.timedelta, datetime.timedelta(hours=1), "PT1H"),
    (decimal.Decimal, decimal.Decimal("1.50"), "1.50"),
    (Path, Path("a/b"), "a/b"),
    (bytes, b"abc", "abc"),
    (uuid.UUID, uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Point, Point(), {"x": 1, "when": "2024-02-29"}),
    (Page, Page(), {"title": "none", "size": "1.50"}),
    (tuple[int, int], (1, 2), [1, 2]),
    (set[int], {3}, [3]),
    (dict[str, Any], {"title": "kept", "more": {"title": "kept"}}, {"title": "kept", "more": {"title": "kept"}}),
    (list[Point], [Point()], [{"x": 1, "when": "2024-02-29"}]),
    (str, None, None),
    (float, 1.5, 1.5),
]


def tool_with(hint: Any, default: Any) -> Tool:
    def look(self: object, value: Any = default) -> str:
        """Look."""
        return repr(value)

    look.__annotations__["value"] = hint
    return Tool.from_function(look)


@pytest.mark.parametrize(("hint", "default", "expected"), CASES, ids=[f"{case[1]!r:.40}" for case in CASES])
def test_a_default_is_shown_as_json_and_may_be_written_so(hint, default, expected):
    tool = tool_with(hint, default)
    default_as_json = tool.schema()["function"]["parameters"]["properties"]["value"]["default"]
    assert default_as_json == expected
    assert json.loads(json.dumps(tool.schema(), allow_nan=False)) == tool.schema()
    if expected is not None:
        assert tool.validate({"value": default_as_json})["value"] == default
    assert tool.validate({}) == {}, "the function's own default stays what it is"


@pytest.mark.parametrize(("hint", "default"), [(Any, object()), (bytes, b"\xff"), (dict[str, Any], {"x": object()})])
def test_a_default_that_json_cannot_write_is_refused_with_tool_and_parameter(hint, default):
    with pytest.raises(ToolDefinitionError, match=r"look.*has a default that JSON cannot express: value = "):
        tool_with(hint, default)


def test_titles_of_data_stay_and_titles_of_fields_go():
    schema = tool_with(Titled, Titled()).schema()["function"]["parameters"]
    fields = schema["$defs"]["Titled"]["properties"]
    assert "title" not in fields["title"]
    assert fields["settings"]["default"] == {"title": "y"}
    assert fields["kind"]["examples"] == [{"title": "z"}]


class Old(TypedDict):
    at: int


OLD = [Old] if sys.version_info < (3, 12) else []  # pydantic has a schema for it from Python 3.12 on


@pytest.mark.parametrize("default", [float("nan"), float("inf"), [1.0, float("-inf")], "\ud800", {"a": "\udc00"}])
def test_a_default_that_no_server_can_send_is_refused(default):
    with pytest.raises(ToolDefinitionError, match=r"look.*has a default that JSON cannot express: value = "):
        tool_with(Any, default)
    schema = {"type": "object", "properties": {"value": {"default": default}}}
    with pytest.raises(ToolDefinitionError, match=r"'look' are not a JSON Schema that can be used"):
        Tool.from_schema("look", "Look.", schema, str)


@pytest.mark.parametrize("hint", [type, Callable[[], None], range, *OLD], ids=str)
def test_a_type_without_a_schema_is_refused_with_the_tool(hint):
    with pytest.raises(ToolDefinitionError, match=r"look' has a type that has no JSON Schema"):
        tool_with(hint, None)


class Keeps(Environment):
    """Changes the defaults of its tool. In memory, nothing is isolated."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        return task.opening()

    @tool
    def note(self, items: list[int] = [], seen: dict[str, list[int]] = {"a": []}, point: Point = Point()) -> list[int]:  # noqa: B006, B008
        """Note."""
        items.append(1)
        seen["a"].append(1)
        point.x += 1
        return [len(items), len(seen["a"]), point.x]

    @tool
    async def wait(self, items: list[int] = []) -> int:  # noqa: B006
        """Wait."""
        items.append(1)
        return len(items)


@tool
def free(items: list[int] = []) -> int:  # noqa: B006
    """Note."""
    items.append(1)
    return len(items)


async def test_a_tool_that_changes_its_default_changes_it_for_no_other_call_or_episode():
    for environment in (Keeps(), Keeps()):
        environment.add_tools(free)
        for _ in range(2):
            for name, expected in (("note", "[1,1,2]"), ("wait", "1"), ("free", "1")):
                assert (await environment.call(Call(name, {}))).content == expected
