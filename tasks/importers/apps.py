"""Read APPS and TACO from files that the user has; the data is never part of this package.

Sources: Hendrycks et al. 2021, arXiv:2105.09938 (APPS); Li et al. 2023, arXiv:2312.14852 (TACO).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agentgym import Split, TaskError, TaskSet

from .contest_problems import ContestProblem, load_problems, pairs, read_json
from .items import LeftOut, read_rows

FILES = {"input_output": "input_output.json", "solutions": "solutions.json", "starter_code": "starter_code.py"}
APPS_S, TACO_S = 4.0, 10.0
"""Seconds of a test in the published harnesses."""
TOLERANCE = 1e-5


def load_apps(path: str | Path, *, split: Split = "held_out") -> TaskSet:
    """The problems of APPS as tasks of `agentgym/code-program-v1` and, if a function is called, `agentgym/code-v1`.

    Words of the output are compared, numbers with the published tolerance. Problems with several right outputs are
    left out, because the set has no checkers.

    Args:
        path: the published folder, or one below it, or a file of rows (JSON lines, Parquet).
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
    Raises: TaskError naming the file and its fault.
    """
    path = Path(path)
    rows = _folders(path) if path.is_dir() else ((_id(row, n), row) for n, row in enumerate(read_rows(path)))
    return load_problems(path, "code/apps-v1", split, rows, lambda row: _problem(row, APPS_S))


def load_taco(path: str | Path, *, split: Split = "held_out") -> TaskSet:
    """The problems of a TACO file, as tasks of the same environments and by the same rules as those of `apps`.

    A row's time limit counts, or else the harness's 10 s. Args and Raises: as for `load_apps`.
    """
    path = Path(path)
    rows = ((f"{number:05d}", row) for number, row in enumerate(read_rows(path)))
    return load_problems(path, "code/taco-v1", split, rows, lambda row: _problem(row, TACO_S))


def _id(row: Mapping[str, Any], number: int) -> str:
    given = row.get("problem_id", row.get("id"))
    return f"{number:04d}" if given is None else str(given)


def _folders(path: Path) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Yield the row of each folder with a question. Raises: TaskError if there is none, or one cannot be read."""
    questions = sorted(path.rglob("question.txt"))
    if not questions:
        raise TaskError(f"{path} has no folder with a question.txt. Give the folder of APPS, or a file of its rows.")
    for question in questions:
        folder = question.parent
        try:
            row = {"question": question.read_text(encoding="utf-8")}
            for column, name in FILES.items():
                file = folder / name
                row[column] = file.read_text(encoding="utf-8") if file.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise TaskError(f"Cannot read {folder}: {error}.") from error
        yield (folder.relative_to(path).as_posix() if folder != path else folder.absolute().name), row


def _problem(row: Mapping[str, Any], limit_s: float) -> ContestProblem:
    tests, starter = read_json(row.get("input_output")), row.get("starter_code") or ""
    if not isinstance(tests, Mapping) or not tests.get("inputs"):
        raise LeftOut("it has no tests")
    function = tests.get("fn_name") or ""
    if not function and re.search(r"^\s*(class|def) ", starter, re.MULTILINE):
        raise LeftOut("it declares a function, and its tests do not name it")
    cases = pairs(tests["inputs"], tests["outputs"])
    if function:
        cases = [(_arguments(arguments), _values(value)) for arguments, value in cases]
    given = re.match(r"[\d.]+", str(row.get("time_limit") or ""))
    return ContestProblem(
        row["question"],
        cases,
        limit_s=float(given[0]) if given else limit_s,
        tolerance=TOLERANCE,
        function=function,
        starter=starter,
        solutions=read_json(row.get("solutions")) or (),
        tags=(str(row["difficulty"]).lower(),) if row.get("difficulty") else (),
    )


def _arguments(arguments: Any) -> list[Any]:
    if not isinstance(arguments, list):
        raise LeftOut("the arguments of a call are not a list")
    return [_keyed(arguments[0])] if len(arguments) == 1 else arguments


def _values(value: Any) -> list[Any]:
    """Return the right values: the harness takes a list's first item as well, because some outputs are wrapped."""
    return [_keyed(value), _keyed(value[0])] if isinstance(value, list) and value else [_keyed(value)]


def _keyed(value: Any) -> Any:
    """Return an object with whole numbers as keys again, where all are; JSON has made texts of them."""
    if isinstance(value, dict) and value and all(re.fullmatch(r"-?\d{1,18}", key) for key in value):
        return {int(key): item for key, item in value.items()}
    return value
