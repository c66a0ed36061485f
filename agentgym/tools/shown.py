"""What a model is shown of a tool: its JSON Schema, and its return value, converted to message content."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentgym.messages import Content, ImagePart, Part, TextPart

from .arguments import replace_lone_surrogates


def render_output(value: Any, limit: int) -> tuple[Content, bool]:
    """Convert a tool's return value into content with at most `limit` characters of text.

    Text and content parts stay as they are; other data becomes compact JSON.
    Returns: the content, and whether it was truncated.
    Raises: TypeError if the value is neither text, parts nor JSON-compatible data.
    """
    if isinstance(value, str):
        text = value
    elif isinstance(value, (TextPart, ImagePart)):
        return _render_parts((value,), limit)
    elif isinstance(value, (list, tuple)) and value and all(isinstance(x, (TextPart, ImagePart)) for x in value):
        return _render_parts(value, limit)
    elif value is None:
        text = ""
    else:
        text = _json_text(value)
    if len(text) <= limit:
        return text if text.isascii() else replace_lone_surrogates(text), False
    visible = replace_lone_surrogates(text[:limit])
    return f"{visible}\n[output cut: {limit} of {len(text)} characters are shown]", True


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"a tool returned data of type {type(value).__name__}, which is neither text nor images nor JSON: {error}. "
            "Return text, numbers, lists, or dicts with text as keys"
        ) from error


def _render_parts(parts: Sequence[Part], limit: int) -> tuple[Content, bool]:
    """Keep every image, and at most `limit` characters of text in total."""
    rendered: list[Part] = []
    any_cut = False
    for part in parts:
        if isinstance(part, TextPart):
            text, cut = render_output(part.text, limit)
            rendered.append(TextPart(str(text)))
            limit, any_cut = max(0, limit - len(part.text)), any_cut or cut
        else:
            rendered.append(part)
    return tuple(rendered), any_cut


_FIRST = ("type", "description", "enum", "properties", "items", "required")
_NAMES = ("properties", "$defs")  # objects whose keys are names, not keywords
_VALUES = ("enum", "const", "default", "examples")


def as_shown(schema: Any) -> Any:
    """Return a schema with `type` first, the rest in a fixed order, and without `additionalProperties: false`."""
    if isinstance(schema, list):
        return [as_shown(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    keys = sorted(schema, key=lambda key: _FIRST.index(key) if key in _FIRST else len(_FIRST))
    return {
        key: {name: as_shown(each) for name, each in schema[key].items()}
        if key in _NAMES and isinstance(schema[key], dict)
        else schema[key]
        if key in _VALUES
        else as_shown(schema[key])
        for key in keys
        if not (key == "additionalProperties" and schema[key] is False)
    }
