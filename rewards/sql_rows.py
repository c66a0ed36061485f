"""Compares two query results: rows as multisets, in order only if the query orders them; numbers by value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from agentgym.reward import comparison

Row = Sequence[Any]
MATCHED_ONE_BY_ONE = 300
"""If sorting has not paired nearly equal rows, up to this many rows are compared each with each."""


def same_rows(gold: Sequence[Row], rows: Sequence[Row], *, ordered: bool, tolerance: float = 1e-9) -> bool:
    """Return whether two results have the same rows, equally often.

    Column names are ignored; the order of columns counts. Numbers are compared by value, so 3 equals 3.0. Whole numbers
    must be equal exactly, others up to the tolerance: it allows another order of summation, but not a summand too few.
    Text is compared exactly. NULL equals only NULL.

    Args:
        ordered: rows must also come in the same order.
        tolerance: relative difference up to which two numbers are equal, unless both are whole.
    Source: Zhong et al. 2020, arXiv:2010.02840 (execution match, multisets, order if the gold query orders).
    """
    if len(gold) != len(rows) or {len(row) for row in gold} != {len(row) for row in rows}:
        return False
    left, right = [tuple(map(_normalised, row)) for row in gold], [tuple(map(_normalised, row)) for row in rows]
    if ordered:
        return all(_same_row(a, b, tolerance) for a, b in zip(left, right, strict=True))
    if Counter(map(_exactly, left)) == Counter(map(_exactly, right)):
        return True
    key = _sort_key([*left, *right])
    pairs = zip(sorted(left, key=key), sorted(right, key=key), strict=True)
    if all(_same_row(a, b, tolerance) for a, b in pairs):
        return True
    return len(left) <= MATCHED_ONE_BY_ONE and _matched(left, right, tolerance)


def asks_for_order(sql: str) -> bool:
    """Return whether a query's outermost SELECT has an ORDER BY, outside parentheses, quotes and comments."""
    return "order by" in " ".join(_outermost(sql).casefold().split())


def _outermost(sql: str) -> str:
    characters: list[str] = []
    depth = position = 0
    while position < len(sql):
        char = sql[position]
        if char in "'\"`[":
            end = sql.find("]" if char == "[" else char, position + 1)
            position = len(sql) if end < 0 else end + 1
            continue
        if sql.startswith("--", position) or sql.startswith("/*", position):
            closing = "\n" if char == "-" else "*/"
            end = sql.find(closing, position + 2)
            position = len(sql) if end < 0 else end + len(closing)
            characters.append(" ")
            continue
        depth += (char == "(") - (char == ")")
        if depth == 0:
            characters.append(char if char != ")" else " ")
        position += 1
    return "".join(characters)


def _normalised(value: Any) -> Any:
    """Return a bool as 0 or 1, and a float without a fraction as an int."""
    if isinstance(value, bool):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _exactly(row: Row) -> tuple[tuple[str, Any], ...]:
    return tuple((type(value).__name__, value) for value in row)


def _sort_key(rows: Sequence[Row]) -> Callable[[Row], Any]:
    """Return a function that gives a row's sort key: the kinds of its values and its texts, then its numbers (rounded
    to six digits in columns that contain a float), then its exact numbers.
    """
    rounded = [any(isinstance(value, float) for value in column) for column in zip(*rows, strict=False)]

    def key(row: Row) -> Any:
        numbers = [value if _is_number(value) else 0 for value in row]
        near = [float(f"{n:.6g}") if is_rounded else n for n, is_rounded in zip(numbers, rounded, strict=False)]
        kinds = [(2, str(value)) if isinstance(value, str | bytes) else (value is not None, "") for value in row]
        return kinds, near, numbers

    return key


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**1000)


def _same_row(left: Row, right: Row, tolerance: float) -> bool:
    return len(left) == len(right) and all(_same(a, b, tolerance) for a, b in zip(left, right, strict=True))


def _same(left: Any, right: Any, tolerance: float) -> bool:
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    if _is_number(left) and _is_number(right):
        return comparison.same_number(left, right, tolerance=tolerance)
    return type(left) is type(right) and bool(left == right)


def _matched(left: Sequence[Row], right: Sequence[Row], tolerance: float) -> bool:
    """Return whether the rows can be matched one to one."""
    unmatched = list(right)
    for row in left:
        partner = next((n for n, candidate in enumerate(unmatched) if _same_row(row, candidate, tolerance)), None)
        if partner is None:
            return False
        del unmatched[partner]
    return True
