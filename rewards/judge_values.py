"""Converts plain Python values to JSON-compatible data and back, without loss.

Uses only the standard library, because its source is sent to the judge's sandboxes. Unpacked values consist of built-in
types only: no object with an `__eq__` that is always true, no lazy object and no subclass can get through.
"""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 60


class NoPlainValue(ValueError):
    """The value is not plain data, or is nested too deeply."""


def pack(value: Any, depth: int = 0) -> Any:
    """Return a value as [kind, content]. Subclasses of plain types are sent as the plain type. Raises: NoPlainValue."""
    if depth > MAX_DEPTH:
        raise NoPlainValue("the value is nested too deeply")
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return ["s", str(value)]
    if isinstance(value, int):
        return ["i", hex(int(value))]
    if isinstance(value, float):
        return ["f", float(value).hex()]
    if isinstance(value, complex):
        return ["c", value.real.hex(), value.imag.hex()]
    if isinstance(value, (bytes, bytearray)):
        return ["b", bytes(value).hex()]
    for kind, types in (("l", list), ("t", tuple), ("e", (set, frozenset))):
        if isinstance(value, types):
            return [kind, [pack(item, depth + 1) for item in value]]
    if isinstance(value, dict):
        return ["d", [[pack(key, depth + 1), pack(item, depth + 1)] for key, item in value.items()]]
    raise NoPlainValue(type(value).__name__)


def unpack(data: Any, depth: int = 0) -> Any:
    """Return the value that `pack` converted. Raises: NoPlainValue for data that `pack` never makes."""
    if data is None or data is True or data is False:
        return data
    try:
        if depth > MAX_DEPTH or not isinstance(data, list):
            raise NoPlainValue("the value is nested too deeply, or of an unknown kind")
        kind, content = data[0], data[1]
        if kind == "s" and isinstance(content, str):
            return content
        if kind == "i":
            return int(content, 16)
        if kind == "f":
            return float.fromhex(content)
        if kind == "c":
            return complex(float.fromhex(content), float.fromhex(data[2]))
        if kind == "b":
            return bytes.fromhex(content)
        if kind == "d":
            return {unpack(key, depth + 1): unpack(item, depth + 1) for key, item in content}
        return {"l": list, "t": tuple, "e": set}[kind](unpack(item, depth + 1) for item in content)
    except (TypeError, ValueError, KeyError, IndexError, OverflowError) as error:
        raise NoPlainValue(f"the value cannot be unpacked: {error}") from error
