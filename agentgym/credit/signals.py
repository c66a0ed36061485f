"""The kinds of signal that a group can carry: how each is read, checked, and restricted to some trajectories.

`Group` declares every signal once, as a field with its kind, a description and a remedy for when it is missing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import CreditError, ShapeError

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
TurnCounts = NDArray[np.int64]
Labels = tuple[tuple[Hashable, ...], ...]
Coalitions = tuple[Mapping[frozenset[int], float], ...]
PLAIN_NUMBERS = frozenset((float, int, bool, np.float64, np.float32, np.int64, np.bool_))
"""Types that numpy and `float` convert to the same number. Strings, which numpy also converts, are left out."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal of a group.

    Attributes:
        kind: says how it is read and stored.
        doc: a description, with shape and unit.
        remedy: what to do if an estimator needs it and the group does not carry it.
    """

    kind: SignalKind
    doc: str
    remedy: str


@dataclass(frozen=True, slots=True)
class SignalKind(ABC):
    """How a signal is read, checked and restricted. The docstring of each kind says how it is stored."""

    def count_turns(self, name: str, given: Any, size: int | None) -> list[int] | None:
        """Return the number of turns per trajectory; None if the signal does not determine it. Raises: ShapeError."""
        return None

    @abstractmethod
    def read(self, name: str, given: Any, turns: TurnCounts, valid: Bools) -> Any:
        """Return the signal in stored form. Values of trajectories that are not valid are not checked.

        Raises: ShapeError if axes disagree; CreditError for an invalid value. Each names the signal, the
            trajectory and the turn.
        """

    def select(self, stored: Any, rows: TurnCounts, max_turns: int) -> Any:
        """Return the signal of some trajectories, the longest of which has `max_turns` turns."""
        return tuple(stored[i] for i in rows)


class TurnKind(SignalKind):
    """A kind that is given as one row per trajectory with one entry per turn.

    With `after_last` a row may have one entry more, for the state after the last turn.
    """

    __slots__ = ()
    after_last: bool = False

    def count_turns(self, name: str, given: Any, size: int | None) -> list[int]:
        return [len(row) for row in _rows(name, given, len(given) if size is None else size)]

    def read_rows(self, name: str, given: Any, turns: TurnCounts) -> list[list[Any]]:
        """Return the rows as lists. Raises: ShapeError if a row does not have one entry per turn."""
        rows = _rows(name, given, len(turns))
        for i, (row, count) in enumerate(zip(rows, turns.tolist(), strict=True)):
            if len(row) != count and not (self.after_last and len(row) == count + 1):
                raise ShapeError(
                    f"{name} of trajectory {i} has {len(row)} entries, but the trajectory has {count} turns. Give one "
                    "entry per turn. For a turn without a value, give NaN in place of a number and [] in place of a "
                    "list."
                )
        return rows


@dataclass(frozen=True, slots=True)
class PerTurn(TurnKind):
    """One number per turn: [N, T], NaN where missing or padding; [N, T+1] with `after_last`.

    Attributes:
        after_last: see `TurnKind`.
        low, high: the smallest and the largest valid number.
        required: every turn of a valid trajectory needs a number.
    """

    after_last: bool = False
    low: float = -np.inf
    high: float = np.inf
    required: bool = False

    def read(self, name: str, given: Any, turns: TurnCounts, valid: Bools) -> Array:
        array = np.full((len(turns), _max_turns(turns) + self.after_last), np.nan)
        for i, row in enumerate(self.read_rows(name, given, turns)):
            array[i, : len(row)] = _row_of_numbers(row, name, i)
        checked = valid[:, None] & (np.arange(array.shape[1])[None] < turns[:, None] + self.after_last)
        _require_finite(name, array, checked, nan_is_missing=not self.required)
        self._require_between(name, array, checked)
        return array

    def select(self, stored: Array, rows: TurnCounts, max_turns: int) -> Array:
        return stored[rows, : max_turns + self.after_last]

    def _require_between(self, name: str, array: Array, checked: Bools) -> None:
        if np.isinf(self.low) and np.isinf(self.high):
            return
        outside = ((array < self.low) | (array > self.high)) & checked
        if outside.any():
            i, k = (int(x) for x in np.argwhere(outside)[0])
            limit = f"at least {self.low:g}" if array[i, k] < self.low else f"at most {self.high:g}"
            raise CreditError(f"{name} of trajectory {i}, turn {k} must be {limit}, not {array[i, k]}.")


@dataclass(frozen=True, slots=True)
class Flags(TurnKind):
    """One True or False per turn: [N, T], False where padding."""

    def read(self, name: str, given: Any, turns: TurnCounts, valid: Bools) -> Bools:
        flags = np.zeros((len(turns), _max_turns(turns)), np.bool_)
        for i, row in enumerate(self.read_rows(name, given, turns)):
            flags[i, : len(row)] = np.asarray(_row_of_numbers(row, name, i)) > 0
        return flags

    def select(self, stored: Bools, rows: TurnCounts, max_turns: int) -> Bools:
        return stored[rows, :max_turns]


@dataclass(frozen=True, slots=True)
class PerTurnLists(TurnKind):
    """A varying count of numbers per turn, for example one per token: [N, T, M], NaN after the last number of a turn.

    Attributes:
        after_last: see `TurnKind`.
    """

    after_last: bool = False

    def read(self, name: str, given: Any, turns: TurnCounts, valid: Bools) -> Array:
        rows = [
            [_numbers(item, name, i, k) for k, item in enumerate(row)]
            for i, row in enumerate(self.read_rows(name, given, turns))
        ]
        longest = max((len(numbers) for row in rows for numbers in row), default=0)
        array = np.full((len(turns), _max_turns(turns) + self.after_last, longest), np.nan)
        for i, row in enumerate(rows):
            for k, numbers in enumerate(row):
                array[i, k, : len(numbers)] = numbers
        _require_finite(name, array, np.broadcast_to(valid[:, None, None], array.shape), nan_is_missing=True)
        return array

    def select(self, stored: Array, rows: TurnCounts, max_turns: int) -> Array:
        return stored[rows, : max_turns + self.after_last]


@dataclass(frozen=True, slots=True)
class PerTurnLabels(TurnKind):
    """One hashable label, or None, per turn: a tuple of tuples."""

    def read(self, name: str, given: Any, turns: TurnCounts, valid: Bools) -> Labels:
        rows = self.read_rows(name, given, turns)
        for i, row in enumerate(rows):
            for k, label in enumerate(row):
                if not isinstance(label, Hashable):
                    raise _not_hashable(label, f"{name} of trajectory {i}, turn {k}")
        return tuple(tuple(row) for row in rows)


@dataclass(frozen=True, slots=True)
class PerTrajectory(SignalKind):
    """One number per trajectory: [N], NaN only where the trajectory is not valid."""

    def read(self, name: str, given: Any, turns: TurnCounts, valid: Bools) -> Array:
        items = _one_per_trajectory(name, given, len(turns))
        if not PLAIN_NUMBERS.issuperset(map(type, items)):
            items = [_number(item, f"{name} of trajectory {i}") for i, item in enumerate(items)]
        array = np.array(items, np.float64)
        _require_finite(name, array, valid, nan_is_missing=False)
        return array

    def select(self, stored: Array, rows: TurnCounts, max_turns: int) -> Array:
        return stored[rows]


@dataclass(frozen=True, slots=True)
class TrajectoryLabels(SignalKind):
    """One hashable label, or None, per trajectory: a tuple."""

    def read(self, name: str, given: Any, turns: TurnCounts, valid: Bools) -> tuple[Hashable, ...]:
        labels = _one_per_trajectory(name, given, len(turns))
        for i, label in enumerate(labels):
            if not isinstance(label, Hashable):
                raise _not_hashable(label, f"{name} of trajectory {i}")
        return tuple(labels)


@dataclass(frozen=True, slots=True)
class ByName(SignalKind):
    """Several signals of one kind, by name: a mapping."""

    kind: PerTurn | PerTrajectory

    def count_turns(self, name: str, given: Any, size: int | None) -> list[int] | None:
        for part, values in self._parts(name, given).items():
            return self.kind.count_turns(f"{name}[{part!r}]", values, size)
        return None

    def read(self, name: str, given: Any, turns: TurnCounts, valid: Bools) -> dict[str, Array]:
        return {
            part: self.kind.read(f"{name}[{part!r}]", values, turns, valid)
            for part, values in self._parts(name, given).items()
        }

    def select(self, stored: Mapping[str, Array], rows: TurnCounts, max_turns: int) -> dict[str, Array]:
        return {part: self.kind.select(array, rows, max_turns) for part, array in stored.items()}

    def _parts(self, name: str, given: Any) -> Mapping[str, Any]:
        if not isinstance(given, Mapping):
            raise CreditError(
                f"{name} must be a mapping from each component's name to its values, not a {type(given).__name__}."
            )
        return given


@dataclass(frozen=True, slots=True)
class PerSubset(SignalKind):
    """One mapping per trajectory, from sets of its turns to numbers: a tuple of mappings from frozenset to number."""

    def read(self, name: str, given: Any, turns: TurnCounts, valid: Bools) -> Coalitions:
        rows = _one_per_trajectory(name, given, len(turns))
        return tuple(
            self._row(f"{name} of trajectory {i}", row, int(count), bool(ok))
            for i, (row, count, ok) in enumerate(zip(rows, turns, valid, strict=True))
        )

    def _row(self, where: str, row: Any, count: int, valid: bool) -> dict[frozenset[int], float]:
        if not isinstance(row, Mapping):
            raise CreditError(
                f"{where} must be a mapping from sets of turns that were played to the return, not {row!r}."
            )
        returns, all_turns = {}, frozenset(range(count))
        for coalition, value in row.items():
            if not isinstance(coalition, Iterable) or not all_turns.issuperset(coalition):
                raise CreditError(
                    f"{where} has the key {coalition!r}, which is not a set of turns from 0 to {count - 1}."
                )
            number = value if type(value) is float else _number(value, f"{where}, turns {sorted(coalition)}")
            if valid and not math.isfinite(number):
                raise CreditError(f"{where}, turns {sorted(coalition)} must be a finite number, not {number}.")
            returns[frozenset(coalition)] = number
        return returns


def trajectory_flags(name: str, given: Iterable[Any] | None, size: int, default: bool) -> Bools:
    """Return [N] bool; `default` for every trajectory if nothing is given. Raises: ShapeError, CreditError."""
    if given is None:
        return np.full(size, default)
    items = _one_per_trajectory(name, given, size)
    for i, item in enumerate(items):
        if not (isinstance(item, (bool, np.bool_)) or (isinstance(item, (int, float)) and item in (0, 1))):
            raise CreditError(f"{name} of trajectory {i} must be True or False, not {item!r}.")
    return np.array(items, np.bool_)


def _rows(name: str, given: Any, size: int) -> list[list[Any]]:
    """Return the rows of a per-turn signal. Raises: ShapeError naming the trajectory that has no row."""
    rows = _one_per_trajectory(name, given, size)
    for i, row in enumerate(rows):
        if isinstance(row, (str, bytes)) or not isinstance(row, Iterable):
            raise ShapeError(f"{name} of trajectory {i} must be a sequence with one entry per turn, not {row!r}.")
    return [list(row) for row in rows]


def _one_per_trajectory(name: str, given: Iterable[Any], size: int) -> list[Any]:
    items = list(given)
    if len(items) != size:
        raise ShapeError(
            f"{name} has {len(items)} entries for a group of {size} trajectories. Give one entry per trajectory."
        )
    return items


def _number(item: Any, where: str) -> float:
    """Return a number, NaN for None. Raises: CreditError for anything else."""
    if item is None:
        return math.nan
    if isinstance(item, (str, bytes)):
        raise CreditError(f"{where} must be a number, not {item!r}.")
    try:
        return float(item)
    except (TypeError, ValueError) as error:
        raise CreditError(f"{where} must be a number, not {item!r}.") from error


def _row_of_numbers(row: list[Any], name: str, i: int) -> list[float]:
    """Return one number per turn. Raises: CreditError naming the trajectory and the turn."""
    # the usual case, in which no error message is prepared for every number
    if PLAIN_NUMBERS.issuperset(map(type, row)):
        return row
    return [_number(item, f"{name} of trajectory {i}, turn {k}") for k, item in enumerate(row)]


def _numbers(item: Any, name: str, i: int, k: int) -> Array:
    """Return the numbers of turn k of trajectory i. Raises: CreditError naming both."""
    if isinstance(item, np.ndarray) and item.ndim == 1 and item.dtype.kind in "fiu":
        return item.astype(np.float64)
    if isinstance(item, list) and PLAIN_NUMBERS.issuperset(map(type, item)):
        return np.array(item, np.float64)
    where = f"{name} of trajectory {i}, turn {k}"
    if isinstance(item, (str, bytes)) or not isinstance(item, (Iterable, type(None))):
        raise CreditError(f"{where} must be a list of numbers, not {item!r}.")
    return np.array([] if item is None else [_number(number, where) for number in item], np.float64)


def _require_finite(name: str, array: Array, checked: Bools, *, nan_is_missing: bool) -> None:
    """Raise CreditError naming the first infinity, or the first NaN unless NaN means that a value is missing."""
    bad = (np.isinf(array) if nan_is_missing else ~np.isfinite(array)) & checked
    if bad.any():
        index = tuple(int(x) for x in np.argwhere(bad)[0])
        where = f"trajectory {index[0]}" + (f", turn {index[1]}" if len(index) > 1 else "")
        hint = (
            " (NaN where a turn has none)."
            if nan_is_missing
            else ". Mark the trajectory as not valid if its episode failed; a valid one must be scored."
        )
        raise CreditError(f"{name} of {where} must be a finite number, not {array[index]}{hint}")


def _not_hashable(label: Any, where: str) -> CreditError:
    return CreditError(f"{where} must be hashable or None, not {label!r}.")


def _max_turns(turns: TurnCounts) -> int:
    return int(turns.max(initial=0))
