"""Chooses the value, error or parameter row that a control has instead of its test's own.

The replacement does not reveal that a test is a control: a value has the same type and size, if these are known.
"""

from __future__ import annotations

import ast
import builtins
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ERRORS = (ZeroDivisionError, IndexError, EOFError, TimeoutError, ImportError)
"""Errors that a control expects instead of its test's expected error. Few classes derive from these."""

STEPS = (2, 4, 6, 12)
"""Differences between a number and the one that replaces it: small and even, so that a forged object that equals all
even numbers, or all numbers of similar size, equals the replacement too."""


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One set of arguments of a parametrised test. `parts`: its id's parts by argument name; `own_id`: the id that the
    test gives it.
    """

    index: int
    values: Mapping[str, ast.expr]
    parts: Mapping[str, str]
    own_id: str | None = None

    @property
    def id(self) -> str:
        return "-".join(self.parts.values()) if self.own_id is None else self.own_id

    def id_with(self, name: str, value: Any) -> str:
        """Return the row's id with another value of one argument."""
        if self.own_id is not None:
            return self.own_id
        return "-".join({**self.parts, name: _part(name, self.index, value) or ""}.values())


def rows_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ParameterRow]:
    """Return the rows of a test with one `parametrize` decorator, by their pytest ids; rows without a plain id are left
    out.
    """
    marks = [node for node in function.decorator_list if isinstance(node, ast.Call) and _called(node) == "parametrize"]
    if len(marks) != 1 or len(marks[0].args) != 2:
        return {}
    names_node, rows_node = marks[0].args
    try:
        names = ast.literal_eval(names_node)
    except ValueError:
        return {}
    names = [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else list(names)
    if not isinstance(rows_node, ast.List | ast.Tuple) or marks[0].keywords:
        return {}
    rows = [_row(index, node, names) for index, node in enumerate(rows_node.elts)]
    return {row.id: row for row in rows if row is not None}


def _row(index: int, node: ast.expr, names: Sequence[str]) -> ParameterRow | None:
    own_id = None
    if isinstance(node, ast.Call) and _called(node) == "param":
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if "id" in keywords:
            own_id = str(ast.literal_eval(keywords["id"])) if is_literal(keywords["id"]) else None
        values = node.args
    elif len(names) == 1:
        values = [node]
    elif isinstance(node, ast.List | ast.Tuple):
        values = node.elts
    else:
        return None
    parts = {}
    for name, value in zip(names, values, strict=False):
        if is_literal(value):
            part = _part(name, index, ast.literal_eval(value))
        else:
            part = f"{name}{index}" if isinstance(value, ast.List | ast.Tuple | ast.Dict | ast.Set) else None
        if part is None and own_id is None:
            return None
        parts[name] = part or ""
    return (
        ParameterRow(index, dict(zip(names, values, strict=False)), parts, own_id)
        if len(values) == len(names)
        else None
    )


def _part(name: str, index: int, value: Any) -> str | None:
    """Return the part of an id that represents an argument; None for a text that pytest would escape."""
    if isinstance(value, str):
        return value if value.isascii() and value.isprintable() and "\\" not in value else None
    if isinstance(value, bytes):
        return _part(name, index, value.decode("latin-1"))
    if value is None or isinstance(value, bool | int | float | complex):
        return str(value)
    return f"{name}{index}"


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_literal(node: ast.expr) -> bool:
    """Return whether an expression is constant."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def related(name: str, values: Sequence[ast.expr | None], rng: random.Random) -> str:
    """Return an expression whose value differs from that of `name`, which is a name or an expression.

    If the `values` that `name` may have are literals of one type, the new value has that type too.
    """
    types = {type(ast.literal_eval(value)) for value in values if value is not None and is_literal(value)}
    number, letter = rng.randrange(2, 9), rng.choice("aehnorst")
    endings = {int: number, float: number, str: repr(letter), list: f"[{number}]", tuple: f"({number},)"}
    if len(types) == 1 and (ending := endings.get(next(iter(types)))) is not None:
        return f"{name} + {ending}"
    return f"(not {name})" if types == {bool} else f"({name}, {number * 100 + 17})"


def other_error(node: ast.expr, rng: random.Random) -> str:
    """Return the name of an exception that is neither the expected one nor its subclass or base."""
    expected = [getattr(builtins, name.id, None) for name in ast.walk(node) if isinstance(name, ast.Name)]
    classes = [each for each in expected if isinstance(each, type)]
    free = [e for e in ERRORS if not any(issubclass(e, each) or issubclass(each, e) for each in classes)]
    return rng.choice(free).__name__ if free else "BufferError"


def other(value: Any, rng: random.Random, *, exact: bool) -> Any:
    """Return a value of the same type and size that is neither equal nor close, and does not reveal a control."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float | complex):
        return value + rng.choice(STEPS) if exact and abs(value) < 2**50 else value * -7 - 12345
    if isinstance(value, str):
        at = rng.randrange(len(value)) if value else 0
        letter = rng.choice([letter for letter in "aehnorst" if letter != value[at : at + 1]])
        return f"{value[:at]}{letter}{value[at + 1 :]}"
    if isinstance(value, bytes):
        return other(value.decode("latin-1"), rng, exact=exact).encode("latin-1")
    if isinstance(value, list | tuple):
        items = list(value) or [1]
        at = rng.randrange(len(items))
        items[at] = other(items[at], rng, exact=exact)
        return type(value)(items)
    if isinstance(value, dict):
        key = rng.choice(list(value)) if value else 1
        return {**value, key: other(value.get(key), rng, exact=exact)}
    if isinstance(value, set | frozenset):
        item = rng.choice(sorted(value, key=repr)) if value else 1
        return type(value)({*value} - {item} | {other(item, rng, exact=exact)})
    return 0
