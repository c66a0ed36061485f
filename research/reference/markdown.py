"""Markdown building blocks of the reference pages."""

from __future__ import annotations

from collections.abc import Sequence


def one_line(text: str) -> str:
    """Return a text in one line, with a full stop and a capital."""
    line = " ".join(text.split()).removesuffix("See also")
    if not line:
        return ""
    line = line if line.startswith("`") or "_" in line.split()[0] else line[0].upper() + line[1:]
    return line if line.endswith((".", "!", "?")) else line + "."


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *cells)]
