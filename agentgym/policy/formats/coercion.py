"""Convert the arguments of formats that write every value as text to the types in the tools' schemas."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from agentgym.messages import Call
from agentgym.policy.formats.contract import CallFormat, Malformed, strict_json
from agentgym.thoughts import opened_before

_WORDS = {"true": True, "false": False, "null": None, "none": None}
_TYPES: dict[type, set[str]] = {
    bool: {"boolean"},
    int: {"integer", "number"},
    float: {"number"},
    type(None): {"null"},
    list: {"array"},
    dict: {"object"},
}


def parse_message(
    call_format: CallFormat, text: str, tools: Sequence[dict[str, Any]] = ()
) -> tuple[str, tuple[Call, ...]]:
    """Return the result of `CallFormat.parse`. Arguments of an untyped format get types from the tools' schemas.

    If the prompt opened a thought, nothing up to the thought's closing mark is a call.
    """
    content, calls = call_format.parse(text)
    if calls and (opening := opened_before(content)):
        content, calls = call_format.parse(opening + text)
        content = content.removeprefix(opening).strip()
    if not getattr(call_format, "untyped", False):
        return content, calls
    schemas = {
        function.get("name"): function.get("parameters") or {}
        for function in (tool.get("function", tool) for tool in tools)
    }
    return content, tuple(
        dataclasses.replace(call, arguments=with_types(call.arguments, schemas[call.name]))
        if call.name in schemas and not call.error
        else call
        for call in calls
    )


def with_types(arguments: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with the types of a tool's parameters. Text that cannot be read as its type stays text."""
    properties, definitions = parameters.get("properties") or {}, parameters.get("$defs") or {}
    return {
        key: _typed(value, set(_types(properties[key], definitions)))
        if isinstance(value, str) and key in properties
        else value
        for key, value in arguments.items()
    }


def _typed(text: str, types: set[str]) -> Any:
    if "string" in types:  # for a type "text or null", templates write null as JSON does
        return None if "null" in types and text.strip() == "null" else text
    word = text.strip().lower()
    if word in _WORDS:  # templates write Python's True and None where they mean JSON's
        value: Any = _WORDS[word]
    else:
        try:
            value = strict_json(text)
        except Malformed:
            return text
    return value if not types or _TYPES.get(type(value), set()) & types else text


def _types(schema: Any, definitions: dict[str, Any], depth: int = 0) -> Iterator[str]:
    """Yield the JSON types that a schema admits, or nothing if it names none. An enum admits its members' types."""
    if not isinstance(schema, dict) or depth > 8:
        return
    of_schema = schema.get("type", ())
    yield from (of_schema,) if isinstance(of_schema, str) else of_schema
    for member in [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]:
        yield from ("string",) if isinstance(member, str) else _TYPES.get(type(member), ())
    for inner in [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]:
        yield from _types(inner, definitions, depth + 1)
    if "$ref" in schema:
        yield from _types(definitions.get(str(schema["$ref"]).rpartition("/")[2]), definitions, depth + 1)
