"""Verdicts of several runs side by side as a table, for a document or another program."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentgym import EvaluationError

from .check import CheckVerdict

BEGIN = "<!-- attacks: begin (written by `agentgym dev sandbox-attack --out`) -->"
END = "<!-- attacks: end -->"
WORDS = {"passed": "held", "failed": "**not held**", "left out": "not tried"}


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One run: `label` names its backend, for example `namespaces as root`."""

    label: str
    level: str
    verdicts: tuple[CheckVerdict, ...]

    @property
    def failed(self) -> list[CheckVerdict]:
        return [verdict for verdict in self.verdicts if verdict.outcome == "failed"]


def markdown(columns: Sequence[TableColumn]) -> str:
    """Return the table, a row for each attack under its theme; below it, why attacks were not tried or were not
    withstood.
    """
    rows = {v.name: v for column in columns for v in column.verdicts}
    by_name = [{v.name: v for v in column.verdicts} for column in columns]
    reasons: dict[str, int] = {}
    lines = [
        "| attack | what is tried, and what must hold | "
        + " | ".join(_cell(column.label) for column in columns)
        + " |",
        "|---|---|" + "---|" * len(columns),
    ]
    theme = ""
    for name, row in rows.items():
        if row.theme != theme:
            theme = row.theme
            lines.append(f"| **{_cell(theme)}** | |" + " |" * len(columns))
        cells = []
        for verdicts in by_name:
            verdict = verdicts.get(name)
            note = ""
            if verdict is not None and verdict.finding:
                note = f" [{reasons.setdefault(verdict.finding, len(reasons) + 1)}]"
            cells.append(WORDS[verdict.outcome] + note if verdict else "not run")
        lines.append(f"| {name.replace('_', ' ')} | {_cell(row.sentence)} | " + " | ".join(cells) + " |")
    totals = [f"{sum(v.outcome == 'passed' for v in column.verdicts)} of {len(column.verdicts)}" for column in columns]
    lines.append(f"| **held** | of {len(rows)} attacks | " + " | ".join(totals) + " |")
    notes = [f"[{number}] {_cell(reason)}  " for reason, number in reasons.items()]
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def spliced(document: str, block: str) -> str:
    """Return a document with the block between its markers. Raises: EvaluationError if the document has no markers."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise EvaluationError(
            f"The document has no place for the table. Add these two lines where it belongs:\n{BEGIN}\n{END}"
        )
    return f"{before}{BEGIN}\n{block}{END}{after}"


def rows_of(document: str) -> list[tuple[str, str]]:
    """Return the name and the sentence of each attack in a document's table."""
    block = document.partition(BEGIN)[2].partition(END)[0]
    rows = []
    for line in block.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) > 2 and not cells[0].startswith(("**", "attack", "---")):
            rows.append((cells[0].replace(" ", "_"), cells[1]))
    return rows


def save(columns: Iterable[TableColumn], path: Path) -> None:
    """Write runs as JSON, so that a later table can show them beside others."""
    path.write_text(json.dumps({"columns": [asdict(column) for column in columns]}, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> list[TableColumn]:
    """Return the runs that `save` wrote. Raises: EvaluationError naming the file and its fault."""
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return [
            TableColumn(
                column["label"], column["level"], tuple(CheckVerdict(**verdict) for verdict in column["verdicts"])
            )
            for column in record["columns"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvaluationError(f"{path} is not a file of attack results: {type(error).__name__}: {error}.") from error


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
