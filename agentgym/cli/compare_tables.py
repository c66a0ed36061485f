"""Comparisons as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from agentgym.evaluation.tournament_tables import ComparisonTable, Drawn, tables
from agentgym.text import format_count, visible


def comparison_tables(result: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield what to print for a result of `tournament` or `over_seeds`: a line on the tasks, and the tables."""
    head = f"{result['tasks']} {result['split']} tasks of {result['task_set']}"
    if "thresholds" in result:
        head += "; intervals are over seeds"
    else:
        head += f", manifest {result['manifest']}"
        head += f", tagged {result['tag']}" if result["tag"] else ""
        head += f", solved and {result['also']}" if result["also"] else ""
        if (uses := result["held_out_uses"]) is not None:
            head += f", held-out tasks used {format_count(uses)} before"
    yield Text(head)
    for table in tables(result):
        yield Text()
        yield _printed(table)


def _printed(table: ComparisonTable) -> Table:
    rows = [[cell.words if isinstance(cell, Drawn) else cell for cell in row] for row in table.rows]
    drawn = [
        all(isinstance(cell, Drawn) and not cell.words for cell in cells) for cells in zip(*table.rows, strict=True)
    ]
    shown = [index for index, is_drawn in enumerate(drawn) if not is_drawn]
    printed = Table(box=None, pad_edge=False, header_style="bold")
    for index in shown:
        options: dict[str, Any] = {"justify": "right", "no_wrap": True} if index else {"overflow": "fold"}
        printed.add_column(table.head[index], **options)
    for row in rows:
        printed.add_row(*(Text(visible(row[index])) for index in shown))
    return printed
