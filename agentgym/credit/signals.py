"""Checks of the signals a group is built from: every error names the field, the trajectory and the turn."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import CreditError, ShapeError

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Lists = NDArray[np.float64]


def per_trajectory(field: str, given: Iterable[Any], size: int) -> Array:
    """[N] float64, one number per trajectory; None becomes NaN. Raises: ShapeError, CreditError."""
    items = list(given)
    if len(items) != size:
        raise ShapeError(f"{field} has {len(items)} entries for a group of {size} trajectories: give one each.")
    return np.array([number(item, f"{field} of trajectory {i}") for i, item in enumerate(items)], np.float64)


def flags(field: str, given: Iterable[Any] | None, size: int, default: bool) -> Bools:
    """[N] bool, `default` for every trajectory where nothing is given. Raises: ShapeError, CreditError."""
    if given is None:
        return np.full(size, default)
    items = list(given)
    if len(items) != size:
        raise ShapeError(f"{field} has {len(items)} entries for a group of {size} trajectories: give one each.")
    for i, item in enumerate(items):
        if not (isinstance(item, (bool, np.bool_)) or (isinstance(item, (int, float)) and item in (0, 1))):
            raise CreditError(f"{field} of trajectory {i} is {item!r}: it is True or False.")
    return np.array(items, np.bool_)


def per_turn(field: str, given: Sequence[Any], turns: NDArray[np.int64], *, after_last: bool = False) -> Array:
    """[N, T] float64, one number per turn, NaN where missing or not played.

    Args:
        after_last: one entry more than turns is welcome, the signal after the last turn; the result
            is then [N, T+1].
    Raises: ShapeError when a trajectory's entries do not match its turns; CreditError for what is no number.
    """
    rows = nested(field, given, len(turns))
    padded = np.full((len(turns), _longest(turns) + after_last), np.nan)
    for i, (row, count) in enumerate(zip(rows, turns, strict=True)):
        if len(row) != count and not (after_last and len(row) == count + 1):
            raise ShapeError(
                f"{field} of trajectory {i} has {len(row)} entries, but the trajectory has {count} turns. "
                "Give one entry per turn, NaN where a turn has none."
            )
        for k, item in enumerate(row):
            padded[i, k] = number(item, f"{field} of trajectory {i}, turn {k}")
    return padded


def per_turn_lists(field: str, given: Sequence[Any], turns: NDArray[np.int64], *, after_last: bool = False) -> Lists:
    """[N, T, M] float64, up to M numbers per turn, NaN behind the last; `after_last` as in `per_turn`.

    Raises: ShapeError when a trajectory's lists do not match its turns; CreditError for what is no list of numbers.
    """
    rows = nested(field, given, len(turns))
    found: list[list[Array]] = []
    for i, (row, count) in enumerate(zip(rows, turns, strict=True)):
        if len(row) != count and not (after_last and len(row) == count + 1):
            raise ShapeError(
                f"{field} of trajectory {i} has {len(row)} lists, but the trajectory has {count} turns. "
                "Give one list per turn, empty where a turn has none."
            )
        found.append([_numbers(item, f"{field} of trajectory {i}, turn {k}") for k, item in enumerate(row)])
    most = max((len(item) for row in found for item in row), default=0)
    padded = np.full((len(turns), _longest(turns) + after_last, most), np.nan)
    for i, row in enumerate(found):
        for k, item in enumerate(row):
            padded[i, k, : len(item)] = item
    return padded


def per_turn_labels(field: str, given: Sequence[Any], turns: NDArray[np.int64]) -> tuple[tuple[Hashable, ...], ...]:
    """One hashable label (or None) per turn. Raises: ShapeError, CreditError."""
    rows = nested(field, given, len(turns))
    for i, (row, count) in enumerate(zip(rows, turns, strict=True)):
        if len(row) != count:
            raise ShapeError(f"{field} of trajectory {i} has {len(row)} entries, but the trajectory has {count} turns.")
        for k, item in enumerate(row):
            if not isinstance(item, Hashable):
                raise CreditError(f"{field} of trajectory {i}, turn {k} is {item!r}: a label is hashable, or None.")
    return tuple(tuple(row) for row in rows)


def nested(field: str, given: Sequence[Any], size: int) -> list[list[Any]]:
    """The rows of a per-turn signal as lists. Raises: ShapeError naming the trajectory that has no row."""
    rows = list(given)
    if len(rows) != size:
        raise ShapeError(f"{field} has {len(rows)} rows for a group of {size} trajectories: give one row each.")
    for i, row in enumerate(rows):
        if isinstance(row, (str, bytes)) or not isinstance(row, Iterable):
            raise ShapeError(f"{field} of trajectory {i} is {row!r}: give a sequence with one entry per turn.")
    return [list(row) for row in rows]


def require_finite(field: str, values: Array, required: Bools, *, nan_is_missing: bool) -> None:
    """Refuse infinity, and NaN unless it stands for a missing value, wherever `required` is True.

    Raises: CreditError naming the first trajectory (and turn) at fault.
    """
    bad = np.isinf(values) if nan_is_missing else ~np.isfinite(values)
    where = np.argwhere(bad & required)
    if len(where):
        at = tuple(int(x) for x in where[0])
        place = f"trajectory {at[0]}" + (f", turn {at[1]}" if len(at) > 1 else "")
        raise CreditError(
            f"{field} of {place} is {values[at]}: a signal is a finite number"
            + (" (NaN where a turn has none)." if nan_is_missing else ". Mark the trajectory as not valid if its "
               "episode failed; a valid one must be scored.")
        )  # fmt: skip


def require_between(field: str, values: Array, counted: Bools, low: float, high: float) -> None:
    """Raises: CreditError naming the first trajectory and turn whose number is below `low` or above `high`."""
    where = np.argwhere(((values < low) | (values > high)) & counted)
    if len(where):
        i, k = (int(x) for x in where[0])
        limit = f"at least {low:g}" if values[i, k] < low else f"at most {high:g}"
        raise CreditError(f"{field} of trajectory {i}, turn {k} is {values[i, k]}: expected {limit}.")


def _numbers(item: Any, what: str) -> Array:
    if isinstance(item, (str, bytes)) or not isinstance(item, (Iterable, type(None))):
        raise CreditError(f"{what} is {item!r}: expected a list of numbers.")
    if isinstance(item, np.ndarray) and item.ndim == 1 and item.dtype.kind in "fiu":
        return item.astype(np.float64)
    return np.array([] if item is None else [number(one, what) for one in item], np.float64)


def number(item: Any, what: str) -> float:
    """A number, NaN for None. Raises: CreditError for anything else."""
    if item is None:
        return math.nan
    if isinstance(item, (str, bytes)):
        raise CreditError(f"{what} is {item!r}: expected a number.")
    try:
        return float(item)
    except (TypeError, ValueError) as error:
        raise CreditError(f"{what} is {item!r}: expected a number.") from error


def _longest(turns: NDArray[np.int64]) -> int:
    return int(turns.max(initial=0))
