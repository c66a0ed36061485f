"""The types of values that functions of every language take and return."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.text import counted

SCALARS = ("int", "float", "bool", "string")
MAX_NESTING = 6
_NAME = re.compile(r"\s*(\w+)\s*")


@dataclass(frozen=True, slots=True)
class ValueType:
    """One type: `int` (64 bits), `float`, `bool`, `string`, `list[T]`, `optional[T]` or `map[K, V]`.

    Attributes:
        kind: the word before the brackets.
        inner: the types in the brackets.
    """

    kind: str
    inner: tuple[ValueType, ...] = ()

    @classmethod
    def parse(cls, text: str) -> ValueType:
        """Read a type such as "map[string, list[int]]". Raises: ValueError saying what is wrong."""
        if not isinstance(text, str):
            raise ValueError(f"{text!r:.80} is not a type: give text, such as 'list[int]'")
        parsed, rest = _parse(text, 0)
        if rest.strip():
            raise ValueError(f"{text!r:.80} is not a type: {rest!r:.40} at its end is unexpected")
        return parsed

    def __str__(self) -> str:
        return f"{self.kind}[{', '.join(map(str, self.inner))}]" if self.inner else self.kind

    def parts(self) -> list[ValueType]:
        """Return the types inside, innermost first, and this type last."""
        return [part for inner in self.inner for part in inner.parts()] + [self]

    def check(self, value: Any) -> None:
        """Raise ValueError unless the value is plain data of this type. A whole number is a float too."""
        if not self._admits(value):
            raise ValueError(f"{value!r:.120} is not of type {self}")
        if self.kind == "map":
            key, item = self.inner
            for name, content in entries(value):
                key.check(name)
                item.check(content)
        elif self.kind == "list" or (self.kind == "optional" and value is not None):
            for content in value if self.kind == "list" else [value]:
                self.inner[0].check(content)

    def _admits(self, value: Any) -> bool:
        match self.kind:
            case "int":
                return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
            case "float":
                return isinstance(value, int | float) and not isinstance(value, bool)
            case "bool":
                return isinstance(value, bool)
            case "string":
                return isinstance(value, str) and _is_text(value)
            case "list":
                return isinstance(value, list | tuple)
            case "map":
                return isinstance(value, Mapping) or _is_pairs(value)
        return True


def same_value(kind: ValueType, expected: Any, value: Any, *, tolerance: float = 1e-9) -> bool:
    """Return whether a result equals the expected value. Floats may differ by `tolerance`, relative, and 1e-12,
    absolute.

    Declared floats are compared by tolerance alone, as in the benchmarks' own tests, even if both values are whole;
    `agentgym.reward.same_number` compares whole values exactly. Both values must be of the type; NaN equals nothing.
    """
    match kind.kind:
        case "float":
            return bool(expected == value) or math.isclose(expected, value, rel_tol=tolerance, abs_tol=1e-12)
        case "list":
            return len(expected) == len(value) and all(
                same_value(kind.inner[0], a, b, tolerance=tolerance) for a, b in zip(expected, value, strict=True)
            )
        case "optional":
            if expected is None or value is None:
                return expected is None and value is None
            return same_value(kind.inner[0], expected, value, tolerance=tolerance)
        case "map":
            expected_map, value_map = dict(entries(expected)), dict(entries(value))
            return expected_map.keys() == value_map.keys() and all(
                same_value(kind.inner[1], item, value_map[key], tolerance=tolerance)
                for key, item in expected_map.items()
            )
    return bool(expected == value)


def entries(value: Any) -> list[tuple[Any, Any]]:
    """Return the entries of a map, which is a mapping or, because JSON keys are text, a list of [key, value]."""
    return list(value.items()) if isinstance(value, Mapping) else [(key, item) for key, item in value]


def _is_pairs(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value)


def _is_text(value: str) -> bool:
    """Return whether every language can hold a text: Unicode without lone surrogates and without the character 0."""
    return "\0" not in value and not any(0xD800 <= ord(character) < 0xE000 for character in value)


def _parse(text: str, depth: int) -> tuple[ValueType, str]:
    match = _NAME.match(text)
    kind = match.group(1) if match else ""
    rest = text[match.end() :] if match else text
    if kind in SCALARS:
        return ValueType(kind), rest
    count = {"list": 1, "optional": 1, "map": 2}.get(kind)
    if count is None or not rest.startswith("[") or depth >= MAX_NESTING:
        raise ValueError(
            f"{text!r:.80} is not a type: types are int, float, bool, string, list[T], optional[T] and map[K, V]"
        )
    inner = []
    for number in range(count):
        part, rest = _parse(rest[1:], depth + 1)
        inner.append(part)
        if not rest.startswith("," if number < count - 1 else "]"):
            raise ValueError(f"{kind} needs {counted(count, 'type')} in brackets, as in {_EXAMPLES[kind]}")
    parsed = ValueType(kind, tuple(inner))
    if kind == "map" and inner[0].kind not in ("int", "string"):
        raise ValueError(f"{parsed} is not valid: the keys of a map must be int or string")
    if kind == "optional" and inner[0].kind == "optional":
        raise ValueError(f"{parsed} is not valid: an optional value cannot be optional again")
    return parsed, rest[1:]


_EXAMPLES = {"list": "list[int]", "optional": "optional[string]", "map": "map[string, int]"}
