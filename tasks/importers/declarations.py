"""Read a function's argument and result types: from its declaration in C++, Go, Java or Rust, from values in
JavaScript.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .literals import without_comments

_INTS = "int|long|long long|short|size_t|unsigned|int64_t|int32_t|Integer|Long|int64|i64|i32|u64|u32|isize|usize"
_SCALARS = {
    **dict.fromkeys(_INTS.split("|"), "int"),
    **dict.fromkeys(["float", "double", "Float", "Double", "float64", "float32", "f64", "f32"], "float"),
    **dict.fromkeys(["bool", "boolean", "Boolean"], "bool"),
    **dict.fromkeys(["string", "String"], "string"),
}
_SHORT_FLOATS = re.compile(r"\b(?:float|Float|float32|f32)\b")
_GENERICS = {
    **dict.fromkeys(["vector", "List", "ArrayList", "Vec"], "list"),
    **dict.fromkeys(["map", "unordered_map", "Map", "HashMap"], "map"),
    **dict.fromkeys(["optional", "Optional", "Option"], "optional"),
}
_BODY = r"[^;{}]*?"
_PATTERNS = {
    "cpp": rf"(?P<returns>[\w:<>,&*\s]+?)\b(?P<name>\w+)\s*\((?P<arguments>{_BODY})\)\s*{{\s*$",
    "java": rf"(?:public|private|static|\s)*(?P<returns>[\w<>,\[\]\s]+?)\b(?P<name>\w+)\s*\((?P<arguments>{_BODY})\)"
    r"(?:\s*throws [\w, ]+)?\s*{\s*$",
    "go": rf"func\s+(?P<name>\w+)\s*\((?P<arguments>{_BODY})\)\s*(?P<returns>[\w\[\]*]+(?:{{}})?)\s*{{\s*$",
    "rust": rf"fn\s+(?P<name>\w+)\s*\((?P<arguments>{_BODY})\)\s*->\s*(?P<returns>[^{{]+?)\s*{{\s*$",
    "javascript": r"(?:function\s+(?P<name>\w+)\s*\(|(?:const|let|var)\s+(?P<other>\w+)\s*=\s*\()"
    rf"(?P<arguments>{_BODY})\)\s*(?:=>\s*)?{{\s*$",
}


class NoDeclaration(ValueError):
    """The declaration is unreadable, or uses a type that tasks do not support."""


def declared(language: str, text: str) -> tuple[str, list[str], list[str] | None]:
    """Return the name of the function whose declaration ends a text, its arguments' names, and its types (the result's
    last).

    JavaScript has no types: they are None.
    Raises: NoDeclaration.
    """
    code = re.sub(r"^\s*(?:#|using\b|use\b|import\b|package\b).*$", "", without_comments(text), flags=re.MULTILINE)
    match = re.search(_PATTERNS[language], re.split(r"[;}]", code)[-1])
    if not match:
        raise NoDeclaration("its prompt does not end with the declaration of a function")
    parts = _apart(match["arguments"])
    if language == "javascript":
        return match["name"] or match["other"], [part.split("=")[0].strip() for part in parts], None
    pairs = _pairs_of_go(parts) if language == "go" else [_pair(language, part) for part in parts]
    return (
        match["name"],
        [name for name, _ in pairs],
        [kind_of(text) for text in (*(k for _, k in pairs), match["returns"])],
    )


def has_short_floats(text: str) -> bool:
    """Return whether a declaration has 32-bit floats, whose results are not exact to nine digits."""
    return _SHORT_FLOATS.search(without_comments(text)) is not None


def kind_of(text: str) -> str:
    """Convert a type of one of the languages to agentgym's notation, such as list[int]. Raises: NoDeclaration."""
    spelling = " ".join(re.sub(r"\b(?:const|final)\b|\b(?:std|collections)::|&\s*(?:mut\b)?", " ", text).split())
    if spelling in _SCALARS:
        return _SCALARS[spelling]
    if spelling.endswith("[]"):
        return f"list[{kind_of(spelling[:-2])}]"
    if spelling.startswith("[]"):
        return f"list[{kind_of(spelling[2:])}]"
    if spelling.startswith("*"):
        return f"optional[{kind_of(spelling[1:])}]"
    if go_map := re.fullmatch(r"map\[(\w+)\](.+)", spelling):
        return f"map[{kind_of(go_map[1])}, {kind_of(go_map[2])}]"
    generic = re.fullmatch(r"(\w+)\s*<(.*)>", spelling)
    if generic and generic[1] in _GENERICS:
        return f"{_GENERICS[generic[1]]}[{', '.join(map(kind_of, _apart(generic[2])))}]"
    raise NoDeclaration(f"the type {spelling!r:.40} is not supported")


def kinds_of_values(rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return the type of each column of values. Raises: NoDeclaration if a column mixes types."""
    return [_joined([_shape(value) for value in column]) for column in zip(*rows, strict=True)]


def _apart(text: str) -> list[str]:
    """Split a text at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "<([") - (character in ">)]")
        if character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [part for part in (*parts, text[start:].strip()) if part]


def _pair(language: str, text: str) -> tuple[str, str]:
    """Return name and type of one argument."""
    match = re.fullmatch(
        r"(?:mut\s+)?(\w+)\s*:\s*(.+)" if language == "rust" else r"(.+?)\s*\b(\w+)\s*((?:\[\])*)", text
    )
    if not match:
        raise NoDeclaration(f"the argument {text!r:.40} cannot be read")
    return (match[1], match[2]) if language == "rust" else (match[2], match[1] + match[3])


def _pairs_of_go(parts: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of name and type in Go, where `a, b int` declares two arguments of one type."""
    pairs: list[tuple[str, str]] = []
    kind = ""
    for part in reversed(parts):
        name, _, own = part.partition(" ")
        kind = own.strip() or kind
        pairs.insert(0, (name, kind))
    return pairs


def _shape(value: Any) -> Any:
    """Return the type of a JavaScript value: a name, ("list", inner), ("map", inner), or None for no value."""
    if value is None or isinstance(value, bool | int | float | str):
        return {bool: "bool", int: "int", float: "float", str: "string", type(None): None}[type(value)]
    if isinstance(value, dict):
        return "map", [_shape(item) for item in value.values()]
    return "list", [_shape(item) for item in value]


def _joined(shapes: Sequence[Any]) -> str:
    """Return one type for several values. A list without items is a list of int."""
    present = [shape for shape in shapes if shape is not None]
    kinds = {shape if isinstance(shape, str) else shape[0] for shape in present}
    if kinds == {"int", "float"}:
        kinds = {"float"}
    if kinds == {"list", "map"} and not any(shape[1] for shape in present if shape[0] == "list"):
        kinds = {"map"}  # the empty list and the empty map are both written {}
    if len(kinds) > 1:
        raise NoDeclaration(f"its values mix {' and '.join(sorted(kinds))}")
    kind = kinds.pop() if kinds else "int"
    if kind in ("list", "map"):
        inner = _joined([item for shape in present for item in shape[1]])
        kind = f"list[{inner}]" if kind == "list" else f"map[string, {inner}]"
    return kind if len(present) == len(shapes) else f"optional[{kind}]"
