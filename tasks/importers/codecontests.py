"""Read CodeContests from a file that the user has; the data is never part of this package.

Source: Li et al. 2022, arXiv:2203.07814.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym import Split, TaskSet

from .contest_problems import ContestProblem, load_problems, pairs
from .items import LeftOut, read_rows

PYTHON3 = (3, "PYTHON3")
TOLERANCE = 1e-5
DEFAULT_S = 10.0
"""Seconds of a run where the row has no time limit: the published tester's."""


def load_codecontests(path: str | Path, *, split: Split = "held_out") -> TaskSet:
    """The problems of a CodeContests file as tasks of `agentgym/code-program-v1`, held out by default.

    All published tests judge: public, private and generated ones; the agent may try the public ones. Words are compared
    without regard to case, numbers within 1e-5, as the published tester does. Problems that read or write files are
    left out, and those with several right outputs, because the set has no checkers.

    Args:
        path: Parquet, or JSON lines with the same columns.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
    Raises: TaskError naming the file and its fault.
    """
    path = Path(path)
    rows = ((str(row.get("name", number)), row) for number, row in enumerate(read_rows(path)))
    return load_problems(path, "code/codecontests-v1", split, rows, _problem)


def _problem(row: Mapping[str, Any]) -> ContestProblem:
    if row.get("input_file") or row.get("output_file"):
        raise LeftOut("it reads or writes a file, not standard input and output")
    public, *others = (_tests(row, kind) for kind in ("public_tests", "private_tests", "generated_tests"))
    limit, solutions = row.get("time_limit") or {}, row.get("solutions") or {}
    written = zip(solutions.get("language") or (), solutions.get("solution") or (), strict=True)
    return ContestProblem(
        row["description"],
        [*public, *others[0], *others[1]],
        limit_s=limit.get("seconds", 0) + limit.get("nanos", 0) / 1e9 or DEFAULT_S,
        tolerance=TOLERANCE,
        examples=public,
        solutions=[code for language, code in written if language in PYTHON3],
        ignore_case=True,
    )


def _tests(row: Mapping[str, Any], kind: str) -> list[tuple[Any, Any]]:
    tests = row.get(kind) or {}
    return pairs(tests.get("input") or [], tests.get("output") or [])
