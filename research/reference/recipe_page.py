"""Every key of a recipe, from its sections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

from agentgym.options import Section
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.recipe.stage_options import STAGE_OPTIONS
from research.reference.entries import entries_of, one_line, table

INTRODUCTION = """\
A recipe is a TOML file; [train](../train.md) explains it. Only `name`, `tasks.set` and `policy` are required.
`agentgym train --set KEY=VALUE` overrides any key, for example `--set train.steps=10`. A run folder holds its recipe
with every default."""


def lines() -> list[str]:
    """The page, without its title."""
    page = [INTRODUCTION]
    for title, section in _titled_sections():
        introduction, texts = _explained(section)
        properties = section.model_json_schema()
        rows = [
            [f"`{key}`", _type_of(schema, properties), _default_of(key, section), texts.get(key, "")]
            for key, schema in properties["properties"].items()
        ]
        page += ["", f"## {title}", "", one_line(introduction), ""]
        page += table(["key", "value", "default", "meaning"], rows)
    return page


def undescribed() -> list[str]:
    """The keys that no docstring explains, each behind the title of its section."""
    unexplained = []
    for title, section in _titled_sections():
        _, texts = _explained(section)
        unexplained += [f"{title}: {key}" for key in section.model_fields if key not in texts]
    return unexplained


def _titled_sections() -> Iterator[tuple[str, type[Section]]]:
    """Every section of a recipe, and the options of every kind of stage that has its own."""
    for path, section in _sections(Recipe, ""):
        yield f"`[{path}]`" if path else "The top", section
    for kind, section in STAGE_OPTIONS.items():
        yield f"`options` of the stage `{kind}`", section


def keys() -> set[str]:
    """Every key of a recipe and every section, for example "train.kl" and "train"."""
    sections = list(_sections(Recipe, ""))
    named = {f"{path}.{key}".lstrip(".") for path, section in sections for key in section.model_fields}
    return named | {path for path, _ in sections if path}


def _explained(section: type[Section]) -> tuple[str, dict[str, str]]:
    """The introduction of a section, and the text of each key, also of those that it inherits."""
    introduction, texts = entries_of(section.__doc__ or "", section.model_fields)
    for base in section.__mro__[1:]:
        if issubclass(base, Section):
            texts = entries_of(base.__doc__ or "", section.model_fields)[1] | texts
    return introduction, texts


def _sections(section: type[Section], path: str) -> Iterator[tuple[str, type[Section]]]:
    """A section and those in it, with their paths, for example "train.signals"."""
    yield path, section
    for key, field in section.model_fields.items():
        for inner in _inner_sections(field.annotation):
            yield from _sections(inner, f"{path}.{key}".lstrip("."))


def _inner_sections(annotation: Any) -> list[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in get_args(annotation) for section in _inner_sections(part)]


def _type_of(schema: dict[str, Any], document: dict[str, Any]) -> str:
    """For example "whole number > 0"."""
    if "anyOf" in schema:
        choices = [_type_of(choice, document) for choice in schema["anyOf"] if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(choices))
    if "$ref" in schema:
        return _type_of(document["$defs"][schema["$ref"].rpartition("/")[2]], document)
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    names = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_type_of(schema.get('items', {}), document)}s".replace("texts", "text")
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
