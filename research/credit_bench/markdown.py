"""The tables of `agentgym dev credit-*` for a document, between two markers so that they can be replaced."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentgym.errors import CreditError
from agentgym.testing.exact.bias import GradientBias
from agentgym.text import percent
from research.credit_bench import BenchmarkRow

BIAS, BENCH = "bias", "bench"


def markers(name: str) -> tuple[str, str]:
    """Return the lines before and after a table."""
    return f"<!-- {name}: begin (written by `agentgym dev credit-{name} --out`) -->", f"<!-- {name}: end -->"


def write_into(path: Path, name: str, block: str) -> None:
    """Replace the table between its markers in a document. Raises: CreditError if the file or a marker is missing."""
    try:
        document = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CreditError(f"Cannot read {path}: {error.strerror}. The table goes between two lines of it.") from error
    begin, end = markers(name)
    before, found_begin, rest = document.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise CreditError(f"{path} has no place for the table. Put these two lines there:\n{begin}\n{end}")
    path.write_text(f"{before}{begin}\n{block}{end}{after}", encoding="utf-8")


def names_in(document: str, name: str) -> list[str]:
    """Return the first cell of each row of a document's table, without the header."""
    begin, end = markers(name)
    lines = document.partition(begin)[2].partition(end)[0].splitlines()
    return [line.split("|")[1].strip(" `") for line in lines if line.startswith("| `")]


def bias_block(measured: Mapping[str, tuple[str, Sequence[GradientBias]]]) -> str:
    """Return one row per estimator: its declared class, and its error for groups of 2, 3 and 4 on each problem."""
    first = next(iter(measured.values()), ("", ()))[1]
    problems = list(dict.fromkeys(row.problem for row in first))
    rows = []
    for name, (declared, biases) in measured.items():
        cells = []
        for problem in problems:
            errors = [row.error for row in biases if row.problem == problem]
            cells.append(", ".join(f"{error:.2f}" for error in errors) if any(errors) else "**0**")
        rows.append([f"`{name}`", declared, *cells])
    return _table(["estimator", "declared", *(problem.replace("_", " ") for problem in problems)], rows)


def bench_block(rows: Sequence[BenchmarkRow]) -> str:
    """Return one row per estimator: the error of its credit at each number of turns, then the updates to learn."""
    counts = sorted({row.turns for row in rows})
    by_name = {(row.name, row.turns): row for row in rows}
    lines = []
    for name in dict.fromkeys(row.name for row in rows):
        own_rows = [by_name[name, count] for count in counts]
        errors = [f"{row.measures.error.value:.2f}" if row.measures else "-" for row in own_rows]
        last = own_rows[-1].measures
        more = [percent(last.sign.value), _noise(last.noise.value)] if last else ["-", "-"]
        lines.append([f"`{name}`", *errors, *more, *map(updates, own_rows)])
    heads = [*(f"error, {k}" for k in counts), f"sign, {counts[-1]}", f"noise, {counts[-1]}"]
    return _table(["estimator", *heads, *(f"updates, {k}" for k in counts)], lines)


def updates(row: BenchmarkRow) -> str:
    """Return the median updates until the right action has chance 0.9; `>` if most seeds did not get there."""
    if row.learning is None:
        return "-"
    steps = f"{row.learning.steps.value:.0f}"
    return f">{steps}" if row.learning.never > 0.5 else steps


def _noise(value: float) -> str:
    return f"{value:.1f}" if math.isfinite(value) else "-"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
