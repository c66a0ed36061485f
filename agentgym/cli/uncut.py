"""A console that never truncates: a pipe gets whole lines, and a table too wide for the terminal becomes a list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

PIPE_WIDTH = 1_000_000
"""The width of a line outside a terminal. Nothing is padded to it."""
_LEAST_PROSE = 24


class UncutConsole(Console):
    """A rich console that truncates no line, cell or name, and never wraps names and figures.

    Prose in a table wraps between words. In a terminal other texts wrap too, and a table whose names and figures do not
    fit side by side becomes a list of its rows. Elsewhere, as in a pipe or a file, lines may have any
    length.

    Args:
        stderr: write to standard error.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False)
        self._page_width = self.width
        if not self.is_terminal:
            self.soft_wrap, self.width = True, PIPE_WIDTH

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, but lay out tables so that they are not truncated."""
        if isinstance(renderable, Table):
            _keep_names_whole(renderable)
            options = options or self.options
            least = _least_width(self, renderable, options)
            if not self.is_terminal:
                options = options.update(width=PIPE_WIDTH if least > self._page_width else self._page_width)
                return _without_padding(super().render(renderable, options))
            elif least > options.max_width:
                renderable = _as_list(renderable)
        return super().render(renderable, options)


class Indented:
    """An indented text: wrapped in a terminal, elsewhere with unwrapped lines."""

    def __init__(self, text: Text, columns: int) -> None:
        self._text, self._columns = text, columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if console.is_terminal:
            yield Padding(self._text, (0, 0, 0, self._columns), expand=False)
        else:
            for line in self._text.split("\n", allow_blank=True):
                yield Text(" " * self._columns) + line if line.plain.strip() else line


class Quoted:
    """A text below a title: in a box in a terminal, elsewhere indented."""

    def __init__(self, title: str, text: Text) -> None:
        self._title, self._text = title, text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if console.is_terminal:
            yield Panel(self._text, title=self._title, title_align="left", border_style="dim")
        else:
            yield Text(f"{self._title}:")
            yield Indented(self._text, 2)


def _keep_names_whole(table: Table) -> None:
    """Let only columns of prose wrap: between words, or inside words longer than the column."""
    for position, column in enumerate(table.columns):
        column.no_wrap = column.no_wrap or not position or not _is_prose(column)
        column.overflow = "fold"


def _is_prose(column: Column) -> bool:
    """Return whether any cell of a column holds a sentence: text with several spaces."""
    return column.justify != "right" and any(_text_of(cell).plain.count(" ") > 2 for cell in column.cells)


def _without_padding(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Yield the segments of lines without the spaces at their ends."""
    for line in Segment.split_lines(segments):
        while line and not line[-1].text.rstrip(" "):
            line.pop()
        if line:
            line[-1] = line[-1]._replace(text=line[-1].text.rstrip(" "))
        yield from line
        yield Segment.line()


def _least_width(console: Console, table: Table, options: ConsoleOptions) -> int:
    """Return the terminal columns that a table needs with its prose wrapped."""
    at_will = options.update(width=PIPE_WIDTH)
    saved = 0
    for column in table.columns:
        if not column.no_wrap:
            widths = [Measurement.get(console, at_will, cell).maximum for cell in (column.header, *column.cells)]
            saved += max(0, max(widths) - _LEAST_PROSE)
    return Measurement.get(console, at_will, table).maximum - saved


def _as_list(table: Table) -> RenderableType:
    """Return the rows of a table as a list, with each cell on its own line after its column's name."""
    names = [_text_of(column.header) if table.show_header else Text() for column in table.columns]
    width = max((name.cell_len for name in names[1:]), default=0)
    lines: list[RenderableType] = [] if table.title is None else [_text_of(table.title)]
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        first, *others = map(_text_of, cells)
        first.stylize("bold")
        lines.append(Text.assemble((f"{names[0].plain}: ", "dim"), first) if names[0].plain else first)
        for name, cell in zip(names[1:], others, strict=True):
            if cell.plain.strip():
                label = Text(f"{name.plain:<{width}}  " if width else "", style="dim")
                lines.append(Indented(label + cell, 2))
    return Group(*lines)


def _text_of(cell: RenderableType) -> Text:
    return cell.copy() if isinstance(cell, Text) else Text.from_markup(str(cell))
