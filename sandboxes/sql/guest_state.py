"""Runs inside the sandbox: hashes the content of a database; the hash is the same for every engine."""

from __future__ import annotations

import hashlib
import json


def state_of(tables) -> str:  # type: ignore[no-untyped-def]
    """Return a hash of tables in any order; each is a name, its column names, and its rows in any order.

    The hash ignores the letter case of names, the order of rows, the difference between 3 and 3.0, and a number's
    digits after the ninth.
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
