"""JSON Schemas with only the keys that models are used to, in the usual order."""

from __future__ import annotations

from typing import Any

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
