"""Compares two mathematical answers: as exact fractions if they contain only numbers, otherwise by their numeric value.

Expressions are evaluated at pseudo-random points from a hash of both answers. Different analytic functions have equal
values there with probability 0, so no simplification is needed (identity testing: Schwartz 1980, J. ACM 27(4), for
polynomials). Every intermediate value is bounded, so that 9**9**9**9 costs nothing and equals nothing.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

from agentgym import MissingExtraError, install_command

from .maths_notation import Tree

DIGITS, POINTS, MAX_SIGNED = 50, 4, 16
MAX_BITS, MAX_EXPONENT, MAX_FACTORIAL = 4_000, 1_000, 300


class Unanswerable(ArithmeticError):
    """A value is too large, undefined, or not a number."""


def same(left: Tree, right: Tree, *, tolerance: float = 1e-9) -> bool:
    """Return whether two trees are mathematically equal.

    Whole numbers and fractions are compared exactly, other numbers and expressions to a relative `tolerance`. Sets,
    lists of solutions and unions are unordered; tuples, intervals and matrices are ordered. `x = 5` equals `5`,
    and `y = 2x` equals `2x`; equations in several symbols are equal up to a constant factor.
    Raises: MissingExtraError without mpmath, if the trees are not only numbers and fractions.
    """
    left, right = _bare(_entrywise(left)), _bare(_entrywise(right))
    if (left[0] == "relation") != (right[0] == "relation"):
        left, right = _assigned(left), _assigned(right)
    left, right = _solutions(left), _solutions(right)
    if left == right and left[0] not in ("set", "union"):
        return _has_value(left)
    if left[0] in _CONTAINERS or right[0] in _CONTAINERS:
        return _same_contents(left, right, tolerance)
    if left[0] == "relation" or right[0] == "relation":
        return left[0] == right[0] and _same_relation(left, right, tolerance)
    left_fraction, right_fraction = _fraction(left), _fraction(right)
    if left_fraction is not None and right_fraction is not None:
        return left_fraction == right_fraction or (
            not (left_fraction.denominator == right_fraction.denominator == 1)
            and _close(left_fraction, right_fraction, tolerance)
        )
    return _same_values(left, right, tolerance)


def _entrywise(tree: Tree) -> Tree:
    """Return a tree in which sums and multiples of matrices are matrices; a product of two matrices stays one."""
    if tree[0] not in ("neg", "add", "sub", "mul", "div"):
        return tree
    kind, *parts = tree[0], *map(_entrywise, tree[1:])
    left, right = parts[0], parts[-1]
    are_matrices = left[0] == "matrix", right[0] == "matrix"
    if kind == "neg" and all(are_matrices):
        return _mapped(lambda entry: (kind, entry), left)
    if kind in ("add", "sub") and all(are_matrices) and [*map(len, left)] == [*map(len, right)]:
        rows = zip(left[1:], right[1:], strict=True)
        return ("matrix", *(("row", *((kind, *pair) for pair in zip(a[1:], b[1:], strict=True))) for a, b in rows))
    if kind in ("mul", "div") and are_matrices == (True, False) and right[0] not in _CONTAINERS:
        return _mapped(lambda entry: (kind, entry, right), left)
    if kind == "mul" and are_matrices == (False, True) and left[0] not in _CONTAINERS:
        return _mapped(lambda entry: (kind, left, entry), right)
    return (kind, *parts)


def _mapped(function: Callable[[Tree], Tree], matrix: Tree) -> Tree:
    return ("matrix", *(("row", *map(function, row[1:])) for row in matrix[1:]))


_CONTAINERS = ("set", "union", "tuple", "matrix", "row", "base")


def _bare(tree: Tree) -> Tree:
    """Return the tree without a leading `x =`."""
    if tree[0] == "relation" and len(tree) == 4 and tree[2] == "=" and tree[1][0] == "sym" and not _symbols(tree[3]):
        return _bare(tree[3])
    return tree


def _assigned(tree: Tree) -> Tree:
    """Return the right side of an equation such as `y = 2x + 1`, to compare it with an answer that is not an equation;
    any other tree unchanged.
    """
    if tree[0] == "relation" and len(tree) == 4 and tree[2] == "=" and tree[1][0] == "sym":
        return tree if tree[1][1] in _symbols(tree[3]) else tree[3]
    return tree


def _solutions(tree: Tree) -> Tree:
    """Return `x = 1, x = 2` as the set of both values, and a tree with plus-minus signs as the set of its values."""
    if tree[0] == "set":
        items = [_solutions(_bare(item)) for item in tree[1:]]
        return ("set", *(value for item in items for value in (item[1:] if item[0] == "set" else [item])))
    values = _signed(tree) if tree[0] not in (*_CONTAINERS, "relation") else [tree]
    return tree if len(values) == 1 else ("set", *values)


def _signed(tree: Tree) -> list[Tree]:
    """Return the trees for all choices of the plus-minus signs; above MAX_SIGNED, the tree itself."""
    choices: list[Tree] = [()]
    for part in tree:
        values = _signed(part) if isinstance(part, tuple) else [part]
        choices = [(*choice, value) for choice in choices for value in values]
        if len(choices) > MAX_SIGNED:
            return [tree]
    if tree[0] != "pm":
        return choices
    return [(sign, *choice[1:]) for choice in choices for sign in ("add", "sub")]


def _same_contents(left: Tree, right: Tree, tolerance: float) -> bool:
    if left[0] != right[0]:
        alone = [tree for tree in (left, right) if tree[0] == "set" and len(tree) == 2]  # {5} and 5
        return bool(alone) and same(*(t[1] if t is alone[0] else t for t in (left, right)), tolerance=tolerance)
    if len(left) != len(right):
        return False
    if left[0] in ("set", "union"):
        return _paired(list(left[1:]), list(right[1:]), tolerance)
    if left[0] == "tuple" and left[1] != right[1]:
        return False
    start = 2 if left[0] == "tuple" else 1
    return all(same(a, b, tolerance=tolerance) for a, b in zip(left[start:], right[start:], strict=True))


def _paired(left: list[Tree], right: list[Tree], tolerance: float) -> bool:
    """Return whether the trees match one to one, taking the first match (equality is nearly transitive here)."""
    if len(left) > 40:
        return False
    for tree in left:
        partner = next(
            (index for index, candidate in enumerate(right) if same(tree, candidate, tolerance=tolerance)), None
        )
        if partner is None:
            return False
        del right[partner]
    return True


def _same_relation(left: Tree, right: Tree, tolerance: float) -> bool:
    if len(left) != len(right):
        return False
    if len(left) == 4 and left[2] == right[2] == "=":
        left_difference, right_difference = ("sub", left[1], left[3]), ("sub", right[1], right[3])
        names = sorted(_symbols(left_difference) | _symbols(right_difference))
        if not names:
            return False
        ratios = []
        for point in _points(names, (left, right), POINTS + 1):
            try:
                top, bottom = _value(left_difference, point), _value(right_difference, point)
            except (Unanswerable, ArithmeticError, ValueError):
                continue
            if not bottom or not top:
                return False
            ratios.append(top / bottom)
        return len(ratios) > 2 and all(_near(ratio, ratios[0], tolerance) for ratio in ratios)
    if left[2::2] == right[2::2]:
        return all(same(a, b, tolerance=tolerance) for a, b in zip(left[1::2], right[1::2], strict=True))
    turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
    if [turned.get(op) for op in reversed(left[2::2])] == list(right[2::2]):
        return all(same(a, b, tolerance=tolerance) for a, b in zip(reversed(left[1::2]), right[1::2], strict=True))
    return False


def _fraction(tree: Tree) -> Fraction | None:
    """Return the exact value of a tree of numbers and the four operations; None for any other tree, or if a number is
    too large.
    """
    kind, *parts = tree
    if kind == "num":
        return Fraction(parts[0]) if len(parts[0]) <= 400 else None
    if kind not in ("neg", "add", "sub", "mul", "div", "pow"):
        return None
    values = [_fraction(part) for part in parts]
    if any(value is None for value in values):
        return None
    a, b = values[0], values[-1]
    assert a is not None and b is not None
    if max(abs(v.numerator).bit_length() + v.denominator.bit_length() for v in (a, b)) > MAX_BITS:
        return None
    if kind == "neg":
        return -a
    if kind in ("add", "sub", "mul"):
        return a + b if kind == "add" else a - b if kind == "sub" else a * b
    if kind == "div":
        return a / b if b else None
    if b.denominator != 1 or not a or abs(b) * max(a.numerator.bit_length(), a.denominator.bit_length()) > MAX_BITS:
        return None
    return a ** int(b)


def _close(a: Fraction, b: Fraction, tolerance: float) -> bool:
    """Return whether two exact numbers differ by at most `tolerance` times the larger one, in exact arithmetic."""
    return abs(a - b) <= Fraction(tolerance) * max(abs(a), abs(b))


def _same_values(left: Tree, right: Tree, tolerance: float) -> bool:
    names = _symbols(left) | _symbols(right)
    if not names:
        try:
            return _near(_value(left, {}), _value(right, {}), tolerance)
        except (Unanswerable, ArithmeticError, ValueError):
            return False
    agreed = 0
    for point in _points(sorted(names), (left, right), 3 * POINTS):
        try:
            if not _near(_value(left, point), _value(right, point), tolerance):
                return False
        except (Unanswerable, ArithmeticError, ValueError):
            continue  # one of the trees has no value at this point
        agreed += 1
        if agreed == POINTS:
            return True
    return False


def _has_value(tree: Tree) -> bool:
    """Return whether the tree has a value. 1/0 and 9^9^9^9 have none and equal nothing, not even themselves."""
    if tree[0] in (*_CONTAINERS, "relation", "pm"):
        return True
    if _fraction(tree) is not None:
        return True
    return _same_values(tree, tree, 1e-9)


def _symbols(tree: Tree) -> frozenset[str]:
    if tree[0] == "sym":
        return frozenset({tree[1]})
    return frozenset().union(*(_symbols(part) for part in tree[1:] if isinstance(part, tuple)))


def _points(names: list[str], trees: tuple[Tree, Tree], count: int) -> list[dict[str, Any]]:
    """Return positive and negative values of the symbols, chosen by a hash of both trees."""
    rng = random.Random(hashlib.sha256(repr(trees).encode()).digest())
    context = _context()
    return [
        {name: context.mpf(rng.randint(10**8, 4 * 10**9)) / 10**9 * rng.choice((1, 1, -1)) for name in names}
        for _ in range(count)
    ]


def _near(a: Any, b: Any, tolerance: float) -> bool:
    context = _context()
    if context.isinf(a) or context.isinf(b):
        return bool(a == b)
    return bool(abs(a - b) <= tolerance * max(abs(a), abs(b)) + context.mpf(10) ** (5 - DIGITS))


def _value(tree: Tree, point: dict[str, Any]) -> Any:
    """Return a number with 50 digits, real or complex. Raises: Unanswerable, ArithmeticError, ValueError."""
    context, kind, parts = _context(), tree[0], tree[1:]
    if kind == "num":
        return _bounded(context.mpf(parts[0]))
    if kind == "sym":
        return point[parts[0]]
    if kind == "const":
        return {"pi": context.pi, "e": context.e, "i": context.mpc(0, 1), "inf": context.inf}[parts[0]] * 1
    if kind == "fn":
        return _bounded(_function(parts[0], _value(parts[1], point)))
    if kind == "tuple" and len(parts) == 2:  # brackets around a part of an expression
        return _value(parts[1], point)
    if kind not in ("neg", "add", "sub", "mul", "div", "pow", "fact", "binom"):
        raise Unanswerable(f"a {kind} has no numeric value")
    a, b = _value(parts[0], point), _value(parts[-1], point)
    if kind == "neg":
        return -a
    if kind in ("add", "sub"):
        return _bounded(a + b if kind == "add" else a - b)
    if kind in ("mul", "div"):
        return _bounded(a * b if kind == "mul" else a / b)
    if kind == "pow":
        return _bounded(_power(a, b))
    for number in (a, b):
        if abs(number) > MAX_FACTORIAL:
            raise Unanswerable("a factorial of so large a number cannot be computed")
    return _bounded(context.factorial(a) if kind == "fact" else context.binomial(a, b))


def _function(name: str, argument: Any) -> Any:
    context = _context()
    if abs(argument) > 10**40 and name not in ("sqrt", "abs", "ln", "log"):
        raise Unanswerable(f"{name} of so large a number cannot be computed")
    if name in ("floor", "ceil") and context.im(argument):
        raise Unanswerable(f"{name} of a complex number is not defined")
    if name in ("exp", "sinh", "cosh", "tanh") and abs(argument) > MAX_BITS / 2:
        raise Unanswerable(f"{name} of so large a number cannot be computed")
    if name == "log":
        name = "ln"  # mathematicians' log; a log of base ten is written with its base
    return getattr(context, {"abs": "fabs", "arcsin": "asin", "arccos": "acos", "arctan": "atan"}.get(name, name))(
        argument
    )


def _power(base: Any, exponent: Any) -> Any:
    context = _context()
    if not base:
        if exponent == 0 or context.re(exponent) <= 0:
            raise Unanswerable("zero to a power that is not positive") if exponent != 0 else Unanswerable("0^0")
        return base
    if abs(exponent) > MAX_EXPONENT or abs(exponent) * abs(context.log(abs(base), 2)) > MAX_BITS:
        raise Unanswerable("so large a power cannot be computed")
    if context.im(base) == 0 and context.re(base) < 0 and context.im(exponent) == 0:
        thirds = Fraction(str(context.nstr(context.re(exponent), 30))).limit_denominator(99)
        if (
            thirds.denominator % 2
            and thirds.denominator > 1
            and abs(context.mpf(thirds.numerator) / thirds.denominator - exponent) < 1e-25
        ):
            return (-1) ** thirds.numerator * context.power(-base, exponent)  # the real root, as in schoolbooks
    return context.power(base, exponent)


def _bounded(number: Any) -> Any:
    context = _context()
    size = abs(number)
    if context.isnan(size) or (not context.isinf(size) and size and abs(context.mag(size)) > MAX_BITS):
        raise Unanswerable("so large or small a number cannot be compared")
    return number


@cache
def _context() -> Any:
    """Return a separate mpmath context, because changing the global precision would affect other code."""
    try:
        from mpmath.ctx_mp import MPContext
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "Comparing mathematical expressions needs the package 'mpmath', which is not installed. "
            f"Install it: {install_command('maths')}."
        ) from error
    context = MPContext()
    context.dps = DIGITS
    return context
