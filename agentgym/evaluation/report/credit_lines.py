"""Find a trainer's credit by trajectory in a run's credit.jsonl, without reading the whole file."""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MANY = 100
"""Above this many trajectories the file is read once instead of searched per trajectory."""


@dataclass(frozen=True, slots=True)
class LoggedCredit:
    """One advantage per turn, in the estimator's units, and the optimiser step that used it."""

    advantages: tuple[float, ...]
    step: int


def read_credit(file: Path, trajectories: Iterable[str]) -> dict[str, LoggedCredit]:
    """Return the last credit of each of these trajectories, omitting missing and truncated entries.

    Args:
        file: lines `{"trajectory": id, "step": int, "advantages": [float, ...]}`; it may be missing.
    """
    ids = set(trajectories)
    try:
        if len(ids) > MANY:
            return _all(file, ids)
        with file.open("rb") as open_file, mmap.mmap(open_file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            credit_by_id = {name: _last(text, name) for name in ids}
    except (OSError, ValueError):  # the file does not exist, or is empty
        return {}
    return {name: credit for name, credit in credit_by_id.items() if credit is not None}


def _all(file: Path, ids: set[str]) -> dict[str, LoggedCredit]:
    credit_by_id: dict[str, LoggedCredit] = {}
    with file.open("rb") as open_file:
        for line in open_file:
            name, credit = _read(line)
            if credit is not None and name in ids:
                credit_by_id[name] = credit
    return credit_by_id


def _last(text: mmap.mmap, name: str) -> LoggedCredit | None:
    needle, end = json.dumps(name).encode(), len(text)
    while (at := text.rfind(needle, 0, end)) >= 0:
        start, stop = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
        whose, credit = _read(text[start : stop if stop >= 0 else len(text)])
        if whose == name and credit is not None:
            return credit
        end = at
    return None


def _read(line: bytes) -> tuple[str, LoggedCredit | None]:
    """Return the trajectory and credit in a line; None for a truncated or other line."""
    try:
        row = json.loads(line)
        name, step, values = row["trajectory"], row["step"], row["advantages"]
        if isinstance(name, str) and isinstance(step, int) and all(math.isfinite(v) for v in values):
            return name, LoggedCredit(tuple(map(float, values)), step)
    except (ValueError, KeyError, TypeError):
        pass
    return "", None
