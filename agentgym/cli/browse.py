"""The episodes of a run in the terminal: a list to filter, one episode at a time, and the difference of two."""

from __future__ import annotations

import io
from collections.abc import Iterable
from difflib import unified_diff
from typing import Any, ClassVar

from rich.console import Console
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from agentgym.cli.tables import print_episode
from agentgym.storage.reader import FILTERS, LedgerReader
from agentgym.text import visible

MAX_ROWS = 2_000
LOOK_AGAIN_S = 2.0
COLUMNS = ("", "Episode", "Success", "Reward", "Turns", "Stop")
LISTED = ("all", *FILTERS)
"""What `f` goes through: every episode, then those of each filter."""
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class EpisodeBrowser(App[None]):
    """Lists the episodes of a ledger, which another process may be writing."""

    CSS = "Input { dock: top; height: 3; } #about { height: auto; color: $text-muted; padding: 0 1; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        ("j", "move(1)", "down"),
        ("k", "move(-1)", "up"),
        ("enter", "open", "read"),
        ("slash", "search", "search"),
        ("f", "filter", "filter"),
        ("m", "mark", "mark"),
        ("d", "diff", "diff"),
        ("q", "quit", "quit"),
    ]

    def __init__(self, reader: LedgerReader) -> None:
        super().__init__()
        self.reader, self.marked = reader, ""
        self._only, self._text, self._known = 0, "", -1
        self.rows: list[dict[str, Any]] = []

    def compose(self) -> ComposeResult:
        """Make a line about the list, the list, and the keys."""
        yield Static(id="about")
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Fill the list, and look for new episodes from then on."""
        self.table.add_columns(*COLUMNS)
        self.reload()
        self.table.focus()
        self.set_interval(LOOK_AGAIN_S, self._look_again)

    @property
    def table(self) -> DataTable[str | Text]:
        """The list."""
        return self.screen_stack[0].query_one(DataTable)

    @property
    def current(self) -> str:
        """The id of the episode under the cursor; empty for an empty list."""
        return self.rows[self.table.cursor_row]["id"] if self.rows else ""

    def reload(self) -> None:
        """Read the list anew. The cursor stays on its episode, if that is still listed."""
        while self.reader.summarise():
            pass
        where = {"text": self._text} if self._text else {}
        if self._only:
            where["only"] = LISTED[self._only]
        before, self._known = self.current, self.reader.count()
        self.rows = self.reader.select(where, limit=MAX_ROWS)
        self.table.clear()
        for row in self.rows:
            self.table.add_row(*self._cells(row))
        rows = {row["id"]: number for number, row in enumerate(self.rows)}
        self.table.move_cursor(row=rows.get(before, 0))
        total = self.reader.count(where)
        about = f"{total:,} of {self._known:,} episodes, {LISTED[self._only].replace('_', ' ')}"
        about += f", with {self._text!r} in the id" if self._text else ""
        about += f"; the first {MAX_ROWS:,} are listed" if total > MAX_ROWS else ""
        self.screen_stack[0].query_one("#about", Static).update(Text(about))

    def _cells(self, row: dict[str, Any]) -> list[str | Text]:
        success = row["success"]
        style = "dim" if success is None else "green" if success >= 1.0 else "red"
        solved = Text("not judged" if success is None else f"{success:g}", style)
        mark = "*" if row["id"] == self.marked else " "
        return [mark, visible(row["id"]), solved, f"{row['reward']:.3g}", str(row["turns"]), row["stop"] or ""]

    def _look_again(self) -> None:
        self.reader.summarise()
        if self.reader.count() != self._known:
            self.reload()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key does something: while an episode is read, of the list's keys only `m` and `d` do."""
        if len(self.screen_stack) == 1 or action not in ("move", "open", "search", "filter", "mark", "diff"):
            return True
        return isinstance(self.screen, EpisodeScreen) and action in ("mark", "diff")

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        self.table.move_cursor(row=self.table.cursor_row + step)

    def action_open(self) -> None:
        """Read the episode under the cursor."""
        if self.current:
            self.push_screen(EpisodeScreen())

    def on_data_table_row_selected(self) -> None:
        """Read an episode on Enter, or on a click."""
        self.action_open()

    def action_filter(self) -> None:
        """List the episodes of the next filter that has some."""
        for _ in LISTED:
            self._only = (self._only + 1) % len(LISTED)
            if not self._only or self.reader.count({"only": LISTED[self._only]}):
                break
        self.reload()

    def action_search(self) -> None:
        """Ask for a part of the id."""
        ask(self.screen, "a part of the id; empty for all")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """List the episodes whose id has the text, or look for it in the episode on the screen."""
        event.input.remove()
        if isinstance(self.screen, EpisodeScreen):
            self.screen.find(event.value)
            return
        self._text = event.value.strip()
        self.reload()
        self.table.focus()

    def action_mark(self) -> None:
        """Mark the episode under the cursor for a diff, and no longer another one."""
        self.marked = "" if self.marked == self.current else self.current
        self.reload()

    def action_diff(self) -> None:
        """Show what differs from the marked episode to the one under the cursor."""
        if not self.marked or self.marked == self.current:
            self.notify("Mark another episode first: m.")
            return
        texts = [text_of(self.reader, name).plain for name in (self.marked, self.current)]
        self.push_screen(TextScreen(diff(texts, (self.marked, self.current))))


class TextScreen(Screen[None]):
    """A text to scroll through."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "app.pop_screen", "back")]

    def __init__(self, text: Text) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        """Make the text and the keys."""
        with VerticalScroll():
            yield Static(self.text, id="text")
        yield Footer()


class EpisodeScreen(TextScreen):
    """One episode. `j` and `k` go on to the next and the one before."""

    app: EpisodeBrowser
    BINDINGS: ClassVar[list[BindingType]] = [
        ("j", "go(1)", "next"),
        ("k", "go(-1)", "previous"),
        ("slash", "search", "search"),
        ("n", "again", "next place"),
        ("m", "app.mark", "mark"),
        ("d", "app.diff", "diff"),
    ]

    def __init__(self) -> None:
        super().__init__(Text())
        self._sought, self._line = "", -1

    def on_mount(self) -> None:
        """Show the episode under the list's cursor."""
        self.action_go(0)

    def action_go(self, step: int) -> None:
        """Move the list's cursor, and show the episode there."""
        self.app.action_move(step)
        self.text = text_of(self.app.reader, self.app.current, max(self.app.size.width - 2, 20))
        self._line = -1
        self.query_one("#text", Static).update(self.text)
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_search(self) -> None:
        """Ask for a text to find."""
        ask(self, "a text of the episode")

    def find(self, text: str) -> None:
        """Scroll to the next line that has the text, whatever its case."""
        self._sought = text.casefold()
        self.action_again()

    def action_again(self) -> None:
        """Scroll to the next line that has the text; from the last on to the first."""
        lines = [i for i, line in enumerate(self.text.plain.splitlines()) if self._sought in line.casefold()]
        if not self._sought or not lines:
            self.notify(f"{self._sought!r} is not in this episode." if self._sought else "Search for a text first: /.")
            return
        self._line = next((line for line in lines if line > self._line), lines[0])
        marked = self.text.copy()
        marked.highlight_words([self._sought], "reverse", case_sensitive=False)
        self.query_one("#text", Static).update(marked)
        self.query_one(VerticalScroll).scroll_to(y=self._line, animate=False)
        self.query_one(VerticalScroll).focus()


def ask(screen: Screen[Any], what: str) -> None:
    """Show a line to write in, unless one is shown."""
    if not screen.query(Input):
        line = Input(placeholder=f"{what}, then Enter")
        screen.mount(line)
        line.focus()


def text_of(reader: LedgerReader, name: str, width: int | None = None) -> Text:
    """Return an episode as `agentgym show --episode` prints it to a terminal this wide, or else to a pipe."""
    file = io.StringIO()
    options: dict[str, Any] = {"force_terminal": True, "color_system": "standard", "width": width} if width else {}
    print_episode(reader.load(name), Console(file=file, **options))
    return Text.from_ansi(file.getvalue())


def diff(texts: Iterable[str], names: tuple[str, str]) -> Text:
    """Return the unified diff of two texts."""
    first, second = (text.splitlines()[1:] for text in texts)  # the first line is the id
    lines = list(unified_diff(first, second, *names, lineterm="")) or ["The two episodes are the same."]
    return Text("\n").join(Text(line, _STYLES.get(line[:1], "")) for line in lines)
