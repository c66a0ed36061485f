"""Writes values as expressions of Java or JavaScript, which the reward `bfcl` reads."""

from __future__ import annotations

import json
from typing import Any

SUFFIXES = {"float": "f", "long": "L"}


def write_value(value: Any, kind: str, items: str | None, language: str) -> str:
    """Return a value of a type as a text. A text stands for itself, or for a variable.

    Args:
        kind: the type as BFCL names it, such as `long`, `Array` or `HashMap`.
        items: the type of a list's items.
        language: `java` or `javascript`.
    """
    if isinstance(value, str):
        return value
    if language == "javascript":
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        inner = ", ".join(_literal(each, items or "") for each in value)
        return f"new ArrayList<>(Arrays.asList({inner}))" if kind == "ArrayList" else f"new Object[]{{{inner}}}"
    if isinstance(value, dict):
        inner = " ".join(f"put({_literal(key, 'String')}, {_literal(each, '')});" for key, each in value.items())
        return f"new HashMap<String, Object>() {{{{ {inner} }}}}"
    return _literal(value, kind)


def _literal(value: Any, kind: str) -> str:
    return f"{json.dumps(value, ensure_ascii=False)}{SUFFIXES.get(kind, '')}"
