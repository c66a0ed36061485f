"""Read LiveCodeBench (code generation) from a file that the user has; the data is never part of this package.

Source: Jain et al. 2024, arXiv:2403.07974.
"""

from __future__ import annotations

import base64
import binascii
import json
import pickletools
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym import Split, TaskSet

from .contest_problems import MAX_TESTS, ContestProblem, load_problems, read_json
from .items import LeftOut, read_rows

LIMIT_S = 6.0
"""Seconds of a test in the published harness."""
PICKLED_TEXT = {"PROTO", "FRAME", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "MEMOIZE", "BINPUT", "STOP"}
"""The operations of a pickle that holds one text."""


def load_livecodebench(path: str | Path, *, split: Split = "held_out") -> TaskSet:
    """The problems of a LiveCodeBench file as tasks of `agentgym/code-program-v1` or `agentgym/code-v1`.

    Public and private tests judge, the agent may try the public ones. The set has no solutions: `--validate` calls its
    tasks unsolved, and `--keep unsolved` keeps them. The private tests are a pickle, which is read and never executed.

    Args:
        path: JSON lines of any release.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
    Raises: TaskError naming the file and its fault.
    """
    path = Path(path)
    rows = ((str(row.get("question_id", number)), row) for number, row in enumerate(read_rows(path)))
    return load_problems(path, "code/livecodebench-v1", split, rows, _problem)


def _problem(row: Mapping[str, Any]) -> ContestProblem:
    public, private = read_json(row["public_test_cases"]) or [], _private(row["private_test_cases"])
    function = str((read_json(row.get("metadata")) or {}).get("func_name") or "")
    kinds = {test["testtype"] for test in [*public, *private]}
    if len(kinds) != 1 or (kinds == {"functional"}) != bool(function):
        raise LeftOut("its tests do not all have the same form")
    read = _call if function else lambda test: (test["input"], test["output"])
    examples = [read(test) for test in public]
    return ContestProblem(
        row["question_content"],
        [*examples, *map(read, private)],
        limit_s=LIMIT_S,
        tolerance=0.0,
        examples=examples,
        function=function,
        starter=row.get("starter_code") or "",
        tags=tuple(str(row[key]) for key in ("platform", "difficulty") if row.get(key)),
    )


def _call(test: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the arguments of a call, one a line of the input, and the right value."""
    return [json.loads(line) for line in test["input"].split("\n")], [json.loads(test["output"])]


def _private(given: Any) -> list[Any]:
    """Return the private tests: a list, JSON, or JSON that is pickled, compressed and in base 64. Raises: LeftOut."""
    if not isinstance(given, str) or given.lstrip().startswith("["):
        return read_json(given) or []
    try:
        unpacking = zlib.decompressobj()
        raw = unpacking.decompress(base64.b64decode(given, validate=True), MAX_TESTS)
        if not unpacking.eof:
            raise LeftOut(f"its private tests are cut, or have more than {MAX_TESTS:,} characters")
        operations = [(operation.name, argument) for operation, argument, _ in pickletools.genops(raw)]
    except (binascii.Error, zlib.error, ValueError) as error:
        raise LeftOut(f"its private tests cannot be unpacked: {error}") from error
    texts = [argument for _, argument in operations if isinstance(argument, str)]
    if len(texts) != 1 or {name for name, _ in operations} - PICKLED_TEXT:
        raise LeftOut("its private tests are a pickle of more than one text, which is not read")
    return read_json(texts[0]) or []
