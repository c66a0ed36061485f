"""Encodes values as words separated by spaces, which a driver in any language can read without a JSON parser.

A value begins with the letter of its kind:

    i-12   a whole number          f0.5   another number, inf or nan       t, F   true and false
    sc3a9  text, as UTF-8 in hex   l2     a list, followed by 2 values     n      null
    m2     a map, followed by 2 pairs of a key and a value
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from .value_types import ValueType, entries

_INTEGER = re.compile(r"-?[0-9]{1,19}\Z")
_NUMBER = re.compile(r"-?[0-9.]{1,40}([eE][-+]?[0-9]{1,4})?\Z|-?inf\Z|nan\Z")


def to_words(kind: ValueType, value: Any) -> list[str]:
    """Return the words of a value that `kind.check` admits."""
    match kind.kind:
        case "int":
            return [f"i{value}"]
        case "float":
            return [f"f{float(value)!r}"]
        case "bool":
            return ["t" if value else "F"]
        case "string":
            return [f"s{value.encode().hex()}"]
        case "optional":
            return ["n"] if value is None else to_words(kind.inner[0], value)
        case "list":
            return [f"l{len(value)}", *(word for item in value for word in to_words(kind.inner[0], item))]
    pairs = entries(value)
    key, item = kind.inner
    return [
        f"m{len(pairs)}",
        *(word for name, content in pairs for word in to_words(key, name) + to_words(item, content)),
    ]


def from_words(kind: ValueType, text: str) -> Any:
    """Read a value from a line that a submission may have written.

    Raises: ValueError unless it is one value of the type.
    """
    words = text.split(" ")
    remaining = iter(words)
    value = _read(kind, remaining, len(words))
    if next(remaining, None) is not None:
        raise ValueError("unexpected words follow the value")
    return value


def _read(kind: ValueType, words: Iterator[str], most: int) -> Any:
    word = next(words, "")
    letter, rest = word[:1], word[1:]
    if kind.kind == "optional":
        return None if word == "n" else _read_known(kind.inner[0], letter, rest, words, most)
    return _read_known(kind, letter, rest, words, most)


def _read_known(kind: ValueType, letter: str, rest: str, words: Iterator[str], most: int) -> Any:
    """Return a value whose first word has been read. `most`: the most values that a list or map may
    announce, because each takes at least one word."""
    match kind.kind, letter:
        case "int", "i" if _INTEGER.match(rest):
            return int(rest)
        # some languages have only one kind of number
        case "int", "f" if _NUMBER.match(rest) and float(rest).is_integer():
            return int(float(rest))
        case "float", "i" | "f" if _NUMBER.match(rest):
            return float(rest)
        case "bool", "t" | "F" if not rest:
            return letter == "t"
        case "string", "s":
            return bytes.fromhex(rest).decode()
        case "list", "l" if rest.isdecimal() and len(rest) < 9 and int(rest) <= most:
            return [_read(kind.inner[0], words, most) for _ in range(int(rest))]
        case "map", "m" if rest.isdecimal() and len(rest) < 9 and int(rest) <= most:
            pairs = [(_read(kind.inner[0], words, most), _read(kind.inner[1], words, most)) for _ in range(int(rest))]
            if len(dict(pairs)) < len(pairs):
                raise ValueError("a key occurs twice")
            return dict(pairs)
    raise ValueError(f"{letter + rest!r:.60} is not of type {kind}")


def line_of(kinds: Sequence[ValueType], values: Sequence[Any]) -> str:
    """Return the line that encodes the arguments of one call, given their types and values."""
    return " ".join(word for kind, value in zip(kinds, values, strict=True) for word in to_words(kind, value))
