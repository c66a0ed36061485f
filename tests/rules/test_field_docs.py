"""Every option has a sentence under it: the command line, the reference pages and errors have no other source."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import is_dataclass

from heavy import HEAVY_MODULES
from source_tree import ROOT, module_name, source_files

from agentgym.options import Section, field_docs

DECLARES_OPTIONS = re.compile(r"^class \w+\(\w*(Section|Options|Episodes|Search)\)|^@validated_dataclass", re.MULTILINE)


def classes_of_options() -> Iterator[type]:
    """Yield every section and checked dataclass of the source."""
    for path in source_files():
        name = module_name(path)
        if name in HEAVY_MODULES or not DECLARES_OPTIONS.search((ROOT / path).read_text(encoding="utf-8")):
            continue
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, type) and value.__module__ == name and _declares_options(value):
                yield value


def _declares_options(cls: type) -> bool:
    is_checked = is_dataclass(cls) and hasattr(cls, "__pydantic_validator__")
    return is_checked or (issubclass(cls, Section) and cls is not Section)


def test_every_field_of_every_class_of_options_has_a_text():
    classes = list(classes_of_options())
    assert len(classes) > 45
    without = [
        f"{cls.__module__}.{cls.__name__}.{name}"
        for cls in classes
        for name in getattr(cls, "model_fields", None) or getattr(cls, "__pydantic_fields__", {})
        if name not in field_docs(cls)
    ]
    assert without == [], "write a sentence under the field: what it does, its unit, what its absence means"
