"""Comparisons as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from agentgym.evaluation.tournament_tables import Cell, ComparisonTable, Drawn, EpisodeId, tables
from agentgym.text import format_count, visible

MAX_UNFOLDED = 34


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
        if table.head[0] != table.title and "->" in table.title:
            yield Text(visible(table.title))
        yield _printed(table)


def _text(cell: Cell) -> str:
    return cell.id if isinstance(cell, EpisodeId) else cell.in_characters() if isinstance(cell, Drawn) else cell


def _printed(table: ComparisonTable) -> Table:
    columns = [
        (name, [_text(cell) for cell in cells])
        for name, cells in zip(table.head, zip(*table.rows, strict=True), strict=True)
        if not all(isinstance(cell, Drawn) and not (cell.words or cell.characters) for cell in cells)
    ]
    printed = Table(box=None, pad_edge=False, header_style="bold")
    for index, (name, cells) in enumerate(columns):
        drawn = any(cell.endswith(" ") for cell in cells)  # aligned at the right, its end would be cut off
        options: dict[str, Any] = {"justify": "left" if drawn else "right", "no_wrap": True}
        if not index or max(map(len, cells)) > MAX_UNFOLDED:
            options = {"overflow": "fold"}
        printed.add_column(name, **options)
    for row in zip(*(cells for _, cells in columns), strict=True):
        printed.add_row(*(Text(visible(cell)) for cell in row))
    return printed
