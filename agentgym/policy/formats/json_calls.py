"""Calls that are JSON objects, `{"name": "query", "arguments": {...}}`, as many formats write between their marks."""

from __future__ import annotations

import json
from typing import Any

from agentgym.messages import Call
from agentgym.policy.formats.contract import Malformed, excerpt, kind_of, malformed_call

MAX_NAME_CHARS = 128


def call_of(value: Any, index: int, example: str, key: str = "arguments") -> Call:
    """Return the call that a JSON value describes, or a call whose error says what is wrong with the value.

    Args:
        index: position among the calls of the message. `example`: the right form.
        key: the key that holds the arguments.
    """
    if not isinstance(value, dict):
        return malformed_call(index, f"The call must be a JSON object, not {kind_of(value)}.", example)
    name, arguments = value.get("name"), value.get(key, {})
    if not isinstance(name, str) or not name:
        return malformed_call(index, 'The call has no "name", which must be a string naming the tool.', example)
    if len(name) > MAX_NAME_CHARS:
        return malformed_call(index, f"No tool has a name of {len(name)} characters, such as {excerpt(name)}.", example)
    if key not in value and len(value) > 1:
        others = ", ".join(excerpt(other, 30) for other in list(value)[:5] if other != "name")
        return malformed_call(index, f'The call to {name} has no "{key}", but {others}.', example, name)
    if isinstance(arguments, str):
        problem = f'"{key}" of the call to {name} is a string; it must be a JSON object, not in quotes.'
        return malformed_call(index, problem, example, name)
    if not isinstance(arguments, dict):
        arguments_excerpt = excerpt(json.dumps(arguments), 40)
        return malformed_call(
            index, f'"{key}" of the call to {name} must be a JSON object, not {arguments_excerpt}.', example, name
        )
    return Call(name, arguments, f"call_{index}")


def named(name: str, what: str = "The call") -> str:
    """Return a tool's name as written, stripped. Raises: Malformed if it is not a name."""
    name = name.strip()
    if not name or any(character.isspace() for character in name):
        raise Malformed(f"{what} must name a tool, not {excerpt(name)}.")
    if len(name) > MAX_NAME_CHARS:
        raise Malformed(f"No tool has a name as long as {len(name)} characters: {excerpt(name)}.")
    return name
