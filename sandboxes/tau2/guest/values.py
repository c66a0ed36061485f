"""The values of fields, checked and converted as pydantic 2 does in Python without `strict`."""

from __future__ import annotations

import datetime
import enum
import re
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], Any]
"""Converts a value to the field's value. Raises: ValidationError."""
INTEGER = re.compile(r"\s*[+-]?\d+(_\d+)*(\.0*)?\s*", re.ASCII)
MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)
TRUTHS = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}


class ValidationError(ValueError):
    """A value does not have the required type.

    Args:
        faults: places inside the value, each with its fault. title: the name of the expected model.
    """

    def __init__(self, *faults: tuple[tuple[Any, ...], str], title: str = "") -> None:
        super().__init__(*faults)
        self.faults, self.title = faults, title

    def __str__(self) -> str:
        lines = [f"{'.'.join(map(str, path))}\n  {fault}" for path, fault in self.faults]
        number = f"{len(lines)} validation error{'s'[: len(lines) > 1]}"
        return "\n".join([f"{number} for {self.title}", *lines])


def invalid(fault: str) -> ValidationError:
    return ValidationError(((), fault))


def _any(value: Any) -> Any:
    return value


def _none(value: Any) -> None:
    if value is not None:
        raise invalid("Input should be None")


def _str(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    raise invalid("Input should be a valid string")


def _int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, enum.Enum):
        return int(value)
    if isinstance(value, float) and abs(value) < 2**63:
        if value == int(value):
            return int(value)
        raise invalid("Input should be a valid integer, got a number with a fractional part")
    if isinstance(value, str) and len(value) < 4_000 and INTEGER.fullmatch(value):
        return int(value.strip().partition(".")[0])
    raise invalid("Input should be a valid integer")


def _float(value: Any) -> float:
    if isinstance(value, int | float | str) and not isinstance(value, enum.Enum):
        try:
            return float(value)
        except (OverflowError, ValueError):
            pass
    raise invalid("Input should be a valid number")


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in TRUTHS:
        return TRUTHS[value.lower()]
    raise invalid("Input should be a valid boolean")


def _date(value: Any) -> datetime.date:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    try:
        moment = _datetime(value)
    except ValidationError:
        raise invalid("Input should be a valid date") from None
    if moment.time() != datetime.time():
        raise invalid("Datetimes provided to dates should have zero time - e.g. be exact dates")
    return moment.date()


def _datetime(value: Any) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)
    try:
        if isinstance(value, str) and MOMENT.fullmatch(value):
            return datetime.datetime.fromisoformat(value)
    except ValueError:
        pass
    raise invalid("Input should be a valid datetime")


CHECKS: Mapping[Any, Check] = {
    Any: _any,
    str: _str,
    int: _int,
    float: _float,
    bool: _bool,
    None: _none,
    type(None): _none,
    datetime.date: _date,
    datetime.datetime: _datetime,
}


def literal_of(values: tuple[str, ...]) -> Check:
    meant = " or ".join([", ".join(map(repr, values[:-1])), repr(values[-1])] if values[1:] else [repr(values[0])])

    def check(value: Any) -> str:
        if isinstance(value, str) and value in values:
            return values[values.index(value)]
        raise invalid(f"Input should be {meant}")

    return check


def enum_of(kind: type[enum.Enum]) -> Check:
    values = [repr(each.value) for each in kind]
    meant = " or ".join([", ".join(values[:-1]), values[-1]] if values[1:] else values)

    def check(value: Any) -> enum.Enum:
        try:
            return kind(value)
        except ValueError:
            raise invalid(f"Input should be {meant}") from None

    return check


def list_of(item: Check = _any) -> Check:
    """Return the check of a list whose items pass `item`."""

    def check(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise invalid("Input should be a valid list")
        faults: list[tuple[tuple[Any, ...], str]] = []
        items = [_held(item, each, (path,), faults) for path, each in enumerate(value)]
        if faults:
            raise ValidationError(*faults)
        return items

    return check


def dict_of(key: Check = _any, item: Check = _any) -> Check:
    """Return the check of a dictionary whose keys pass `key` and whose values pass `item`."""

    def check(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise invalid("Input should be a valid dictionary")
        faults: list[tuple[tuple[Any, ...], str]] = []
        pairs = [
            (_held(key, name, (name, "[key]"), faults), _held(item, each, (name,), faults))
            for name, each in value.items()
        ]
        if faults:
            raise ValidationError(*faults)
        return dict(pairs)

    return check


def _held(check: Check, value: Any, path: tuple[Any, ...], faults: list[tuple[tuple[Any, ...], str]]) -> Any:
    """Return the value as `check` converts it; None if it is wrong, and add its faults to `faults`, below `path`."""
    try:
        return check(value)
    except ValidationError as error:
        faults += [((*path, *inner), fault) for inner, fault in error.faults]
        return None
