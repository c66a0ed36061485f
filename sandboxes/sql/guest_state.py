"""Runs inside the sandbox: the contents of a database as one hash, the same for every engine that holds the same."""

from __future__ import annotations

import hashlib
import json


def state_of(tables) -> str:  # type: ignore[no-untyped-def]
    """Hash over tables, in any order, each a name, its column names, and its rows in any order.

    Letter case of names does not count, and neither do the order of rows, the difference of 3 and 3.0, or digits of a
    number beyond the ninth.
    """
    parts = []
    for name, columns, rows in tables:
        lines = sorted(json.dumps([_canonical(value) for value in row]) for row in rows)
        parts.append(json.dumps([name.casefold(), [column.casefold() for column in columns], lines]))
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:32]


def _canonical(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        value = float(f"{value:.9g}")
        return int(value) if value.is_integer() else value
    if isinstance(value, int) and abs(value) >= 2**63:
        return str(value)
    return f"x'{value.hex()}'" if isinstance(value, bytes) else value
