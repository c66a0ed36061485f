"""Every key of a recipe, read from its sections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agentgym import registry
from agentgym.options import Section, field_docs, sections_in
from agentgym.training.recipe.recipe import Recipe
from research.reference.markdown import one_line, table

INTRODUCTION = """\
A recipe is a TOML file; [train](../train.md) explains it. Only `name`, `tasks.set` and `policy` are required.
`agentgym train --set KEY=VALUE` overrides any key, for example `--set train.steps=10`. A run folder holds its recipe
with every default."""


def lines() -> list[str]:
    """Return the page, without its title. Keys that several sections share are described in the first of them."""
    page, first_title = [INTRODUCTION], dict[type, str]()
    for title, section in _titled_sections():
        texts, properties = field_docs(section), section.model_json_schema()
        rows, as_in = list[list[str]](), dict[str, list[str]]()
        for key, schema in properties["properties"].items():
            described_in = first_title.setdefault(_owner(key, section), title)
            if described_in == title:
                rows.append([f"`{key}`", _type_of(schema, properties), _default_of(key, section), texts.get(key, "")])
            else:
                as_in.setdefault(described_in, []).append(f"`{key}`")
        page += ["", f"## {title}", "", one_line(section.__doc__ or "")]
        page += [f"As in {other}: {', '.join(shared)}." for other, shared in as_in.items()]
        page += ["", *table(["key", "value", "default", "meaning"], rows)] if rows else []
    return page


def _owner(key: str, section: type[Section]) -> type:
    """Return the class that declares a key: the section or one of its bases."""
    return next(each for each in section.__mro__ if key in vars(each).get("__annotations__", {}))


def _titled_sections() -> Iterator[tuple[str, type[Section]]]:
    """Yield every section of a recipe, and the options of every kind of stage that has its own."""
    for path, section in _sections(Recipe, ""):
        yield f"`[{path}]`" if path else "The top", section
    for kind in registry.names("stages"):
        if (options := registry.load("stages", kind).options) is not None:
            yield f"`options` of the stage `{kind}`", options


def keys() -> set[str]:
    """Return every key of a recipe and every section, for example "train.kl" and "train"."""
    sections = list(_sections(Recipe, ""))
    named = {f"{path}.{key}".lstrip(".") for path, section in sections for key in section.model_fields}
    return named | {path for path, _ in sections if path}


def _sections(section: type[Section], path: str) -> Iterator[tuple[str, type[Section]]]:
    """Yield a section and the sections in it, with their paths, for example "train.signals"."""
    yield path, section
    for key, field in section.model_fields.items():
        for inner in sections_in(field.annotation):
            yield from _sections(inner, f"{path}.{key}".lstrip("."))


def _type_of(schema: dict[str, Any], document: dict[str, Any]) -> str:
    """Return a type in words, for example "whole number > 0"."""
    if "anyOf" in schema:
        choices = [_type_of(choice, document) for choice in schema["anyOf"] if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(choices))
    if "$ref" in schema:
        return _type_of(document["$defs"][schema["$ref"].rpartition("/")[2]], document)
    if choices := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return ", ".join(f"`{choice}`" for choice in choices)
    if "prefixItems" in schema:
        return f"[{', '.join(_type_of(item, document) for item in schema['prefixItems'])}]"
    names = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
    kind = schema.get("type")
    if kind == "array":
        entry = _type_of(schema.get("items", {}), document)
        return f"list of {entry}{'s' * (entry in ('table', 'number', 'whole number'))}"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"table of {_type_of(values, document)}" if isinstance(values, dict) and values else "table"
    signs = {
        "minimum": "≥",
        "exclusiveMinimum": ">",
        "maximum": "≤",
        "exclusiveMaximum": "<",
        "multipleOf": "a multiple of",
    }
    limits = [f"{sign} {_number(schema[limit])}" for limit, sign in signs.items() if limit in schema]
    return " ".join([names.get(str(kind), "any value"), ", ".join(limits)]).rstrip()


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _default_of(key: str, section: type[Section]) -> str:
    field = section.model_fields[key]
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=False)
    if default is None or isinstance(default, Section):
        return ""
    return f"`{json.dumps(default)}`"
