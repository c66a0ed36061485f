"""Compare answers: numbers by value, whole numbers exactly; everything else as folded text (`fold_text`).

Every judge that compares numbers or texts in answers uses these functions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from agentgym.text import fold_text

Number: TypeAlias = int | float | Fraction
TOLERANCE, LEAST = 1e-9, 1e-12
"""Relative and absolute difference up to which two numbers are equal, unless both are whole. It covers rounding that
depends on the order of a sum, but is less than the effect of a missing row.
"""
_EXACT_FLOATS = 2.0**53
_MAX_DIGITS = 400
_CURRENCIES = "$\u20ac\u00a3\u00a5\u20b9\u20a9"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?P<before>[{_CURRENCIES}]?)(?P<inner>[+-]?)"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?)"
    rf" ?(?P<after>[{_CURRENCIES}%]?)",
    re.ASCII,
)
_QUOTES = "'\"`"


def same_number(left: Number, right: Number, *, tolerance: float = TOLERANCE) -> bool:
    """Return whether two numbers are equal: whole ones exactly, others within a tolerance. NaN equals nothing.

    A float of 2**53 or more does not count as whole, because it cannot represent every digit.
    """
    if left == right:
        return True
    if is_whole(left) and is_whole(right):
        return False
    try:
        return math.isclose(left, right, rel_tol=tolerance, abs_tol=LEAST)
    except OverflowError:  # a whole number is too large for a float
        return False


def is_whole(number: Number) -> bool:
    """Return whether a number is an integer that is exact to the last digit."""
    if isinstance(number, float):
        return number.is_integer() and abs(number) < _EXACT_FLOATS
    return number == int(number)


def read_number(text: str) -> Fraction | None:
    """Return the value of a plain number such as `$1,184.50`, `-3` or `1e6`; None for anything else (a date, 5%)."""
    value, unit = _number_and_unit(fold_text(text)) if len(text) <= _MAX_DIGITS else (None, "")
    return None if unit == "%" else value


def _number_and_unit(folded: str) -> tuple[Fraction | None, str]:
    """Return a number with its currency, "%" or ""; None for anything else."""
    match = _NUMBER.fullmatch(folded)
    if match is None or (match["sign"] and match["inner"]) or (match["before"] and match["after"]):
        return None, ""
    value = Fraction(match["sign"] + match["inner"] + match["digits"].replace(",", ""))
    return value, match["before"] or match["after"]


def _is_code(folded: str) -> bool:
    """Return whether a number is written with leading zeros, which belong to a code: a postcode, a part's number."""
    return len(folded) > 1 and folded[0] == "0" and folded[1].isdecimal()


def same_answer(answer: Any, gold: Any, *, tolerance: float = TOLERANCE) -> bool:
    """Return whether two answers are equal: numbers by value, other texts folded, without outer quotes and final full
    stop.

    A currency may be left out, but not replaced by another; 50% is neither 50 nor 0.5. A gold answer with leading zeros
    is a code, such as 007 or 02139, and not a number. An empty answer equals nothing.
    """
    left, right = fold_answer(str(answer)), fold_answer(str(gold))
    if not left or not right:
        return False
    if left == right:
        return True
    if max(len(left), len(right)) > _MAX_DIGITS:
        return False
    (number, unit), (gold_number, gold_unit) = _number_and_unit(left), _number_and_unit(right)
    if number is None or gold_number is None or _is_code(right):
        return False
    if unit != gold_unit and ("%" in (unit, gold_unit) or (unit and gold_unit)):
        return False
    return same_number(number, gold_number, tolerance=tolerance)


def same_data(left: Any, right: Any, *, folded: bool = False) -> bool:
    """Return whether two JSON values are equal: numbers by value (True is not 1), texts exactly, or folded on request.

    Values that are nested too deeply to be compared equal nothing.
    """
    try:
        return _same_data(left, right, folded)
    except RecursionError:
        return False


def _same_data(left: Any, right: Any, folded: bool) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return same_number(left, right)
    if isinstance(left, str) and isinstance(right, str):
        return left == right or (folded and fold_text(left) == fold_text(right))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(_same_data(a, b, folded) for a, b in zip(left, right, strict=True))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same_data(left[key], right[key], folded) for key in left)
    return type(left) is type(right) and bool(left == right)


def fold_answer(text: str) -> str:
    """Return a folded text without outer quotes and final full stops, in either order."""
    text = fold_text(text).rstrip(". ")
    while len(text) >= 2 and text[0] == text[-1] and text[0] in _QUOTES:
        text = text[1:-1].strip().rstrip(". ")
    return text
