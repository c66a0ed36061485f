"""Describes a tool to a model, by the function's documentation and its parameters' JSON Schema."""

from __future__ import annotations

import datetime
import enum
import inspect
import json
import re
import types
import typing
from collections.abc import Callable
from typing import Any

from .models import BaseModel, FieldInfo, plain, unwrapped

SECTION = re.compile(r"(Args|Arguments|Parameters|Params|Returns?|Raises|Yields|Examples?|Attributes|Notes?):\s*$")
NAMES: typing.Mapping[Any, dict[str, Any]] = {
    Any: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    dict: {"type": "object"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.datetime: {"type": "string", "format": "date-time"},
}


def tool_schema(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Return a tool's name, description and parameters. Raises: NotImplementedError for an unsupported type."""
    description, descriptions = documentation(function.__doc__ or "")
    hints = typing.get_type_hints(function, include_extras=True)
    properties: dict[str, Any] = {}
    required = []
    for parameter in inspect.signature(function).parameters.values():
        schema = schema_of(hints.get(parameter.name, Any))
        if parameter.name in descriptions:
            schema = {**schema, "description": descriptions[parameter.name]}
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        else:
            schema = {**schema, "default": _json(parameter.default)}
        properties[parameter.name] = schema
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = required
    return {"name": name, "description": description or name, "parameters": parameters}


def documentation(docstring: str) -> tuple[str, dict[str, str]]:
    """Return the text of a docstring in Google's style, and the description of each parameter."""
    lines = inspect.cleandoc(docstring).splitlines()
    starts = [number for number, line in enumerate(lines) if SECTION.match(line)]
    text = "\n".join(lines[: starts[0]] if starts else lines).strip()
    descriptions: dict[str, str] = {}
    for start in starts:
        if not lines[start].startswith(("Args", "Arguments", "Param")):
            continue
        end = next((later for later in starts if later > start), len(lines))
        entries = inspect.cleandoc("\n".join(["", *lines[start + 1 : end]]))
        for entry in re.split(r"\n(?=\S)", entries):
            name, colon, description = entry.partition(":")
            if colon:
                descriptions[name.split("(")[0].strip()] = inspect.cleandoc(description)
    first, _, rest = text.partition("\n")
    return f"{first}\n\n{rest.lstrip()}" if rest.strip() else first, descriptions


def schema_of(annotation: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type. Raises: NotImplementedError for an unsupported type."""
    inner, field = unwrapped(annotation)
    if field is not None:
        return _described(schema_of(inner), field)
    if inner in NAMES:
        return NAMES[inner]
    origin, arguments = typing.get_origin(inner), typing.get_args(inner)
    if origin is typing.Literal:
        return _choices(arguments)
    if origin in (list, set, tuple) and len(arguments) == 1:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema_of(member) for member in arguments]}
    if isinstance(inner, type) and issubclass(inner, enum.Enum):
        return _choices([member.value for member in inner])
    if isinstance(inner, type) and issubclass(inner, BaseModel):
        return _object(inner)
    raise NotImplementedError(f"parameters of type {annotation!r} are not supported in the sandbox")


def _object(model: type[BaseModel]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        properties[name] = _described(schema_of(field.annotation), field)
        if not field.is_required and field.default_factory is None:
            properties[name] = {**properties[name], "default": _json(field.default)}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [name for name, field in model.model_fields.items() if field.is_required]:
        schema["required"] = required
    if model.model_config["extra"] == "forbid":
        schema["additionalProperties"] = False
    return {**schema, "description": inspect.cleandoc(model.__doc__)} if model.__doc__ else schema


def _described(schema: dict[str, Any], field: FieldInfo) -> dict[str, Any]:
    return schema if field.description is None else {**schema, "description": field.description}


def _choices(values: typing.Sequence[Any]) -> dict[str, Any]:
    kinds = {type(value) for value in values}
    name = NAMES[kinds.pop()] if len(kinds) == 1 else {}
    return {**name, "enum": list(values)}


def _json(value: Any) -> Any:
    return json.loads(json.dumps(plain(value), default=str))
