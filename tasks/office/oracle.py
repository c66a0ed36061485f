"""Scripted players of the office jobs: the oracle uses mouse and keyboard; the imperfect oracle makes one mistake."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agentgym import Call, Message, Task

HOME = "/work/home"  # path in the sandbox, as given to the agent
Script = Callable[[Sequence[Message]], Message]
MENU = {"vertically": 3, "clockwise": 5, "anti-clockwise": 6}  # position in mtPaint's menu Image
MAX_LOOKS, LARGE = 40, 100  # initial counts are below 100, new ones are not


class OfficePlayer:
    """Performs steps one by one. If a step waits for a window, the player looks until the window appears."""

    def __init__(self, steps: Iterator[tuple[Call, str]]) -> None:
        """Take the calls of a player, each with a pattern.

        The player goes on once the titles and classes of the windows match it.
        """
        self._steps, self._awaited, self._looks = steps, "", 0

    def __call__(self, messages: Sequence[Message]) -> Message:
        windows = messages[-1].text.partition("\nElements,")[0]
        if self._awaited and self._looks < MAX_LOOKS and not re.search(self._awaited, windows, re.MULTILINE):
            self._looks += 1
            return Message("assistant", "", (Call("look", {}),))
        self._looks = 0
        call, self._awaited = next(self._steps)
        return Message("assistant", "", (call,))


def oracle(task: Task) -> Script:
    """Solve the task in the programs that it requires."""
    return OfficePlayer(_Plan(task, wrong=False).steps())


def imperfect_oracle(task: Task) -> Script:
    """Make the oracle's moves with one mistake: another value, another name, or nothing saved."""
    return OfficePlayer(_Plan(task, wrong=True).steps())


class _Plan:
    """The steps of one task, derived from the difference between its files and its truth."""

    def __init__(self, task: Task, *, wrong: bool) -> None:
        self.kind, self.wrong = task.tags[-1], wrong
        self.files, self.expected = task.parameters["files"], task.truth["files"]
        self.path, self.content = next(iter(self.expected.items()))
        self.prompt = task.prompt
        self.name = self.path.rpartition("/")[2]

    def steps(self) -> Iterator[tuple[Call, str]]:
        plans = {
            "cell": self.sheet,
            "row": self.sheet,
            "formula": self.sheet,
            "letter_to_sheet": self.letter_to_sheet,
            "paragraph": self.letter,
            "sheet_to_letter": self.sheet_to_letter,
            "bold": self.bold,
            "flip": self.paint,
            "quarter": self.paint,
            "viewer_quarter": self.viewer,
            "unpack": self.unpack,
            "line": self.text,
            "product": self.product,
            "move": self.move,
            "delete": self.delete,
        }
        yield from plans[self.kind]()
        yield Call("done", {}), ""

    def sheet(self) -> Iterator[tuple[Call, str]]:
        content = dict(self.content["cells"])
        rows = len(content) // 2
        changed = {name: value for name, value in content.items() if self.is_new(name, value, rows)}
        yield _launch("sheet", self.path, "- Gnumeric")
        at, last = (0, 0), rows - (2 if self.kind == "row" else 1)
        if any(int(name[1:]) > last // 2 for name in changed):
            yield _press("ctrl+End"), ""
            at = (1, last)
        for name, value in sorted(changed.items()):
            column, row = ord(name[0]) - ord("A"), int(name[1:]) - 1
            yield from self.arrows(column - at[0], "Right", "Left")
            yield from self.arrows(row - at[1], "Down", "Up")
            yield _type(f"{value}{1 if self.wrong else ''}\n"), r"\* \*"
            at = (column, row + 1)
        yield _press("ctrl+s"), rf"\* {re.escape(self.name)} - Gnumeric"

    def is_new(self, name: str, value: str | float, rows: int) -> bool:
        """Return whether a cell has to be entered: a formula, a large count, or a cell of the new row."""
        if self.kind == "row":
            return int(name[1:]) == rows
        return str(value).startswith("=") or (not isinstance(value, str) and value >= LARGE)

    def arrows(self, count: int, forward: str, back: str) -> Iterator[tuple[Call, str]]:
        for _ in range(abs(count)):
            yield _press(forward if count > 0 else back), ""

    def letter(self) -> Iterator[tuple[Call, str]]:
        yield _launch("writer", self.path, "Abiword")
        yield _press("ctrl+End"), ""
        new = self.content["paragraphs"][-1][0][0]
        yield _type(f"\n{new}{'!' if self.wrong else ''}"), r"\* \*"
        yield _press("ctrl+s"), rf"\* {re.escape(self.name)} \["

    def bold(self) -> Iterator[tuple[Call, str]]:
        yield _launch("writer", self.path, "Abiword")
        yield _press("ctrl+Home"), ""
        yield _press("shift+End" if not self.wrong else "ctrl+shift+Right"), ""
        yield _press("ctrl+b"), r"\* \*"
        yield _press("ctrl+s"), rf"\* {re.escape(self.name)} \["

    def letter_to_sheet(self) -> Iterator[tuple[Call, str]]:
        letter = next(path for path in self.files if path.endswith(".abw"))
        yield _launch("writer", letter, "Abiword")
        yield from self.sheet()

    def sheet_to_letter(self) -> Iterator[tuple[Call, str]]:
        sheet = next(path for path in self.files if path.endswith((".gnumeric", ".xlsx")))
        yield _launch("sheet", sheet, "- Gnumeric")
        yield from self.letter()

    def paint(self) -> Iterator[tuple[Call, str]]:
        yield _launch("paint", self.path, r"\* Settings Toolbar")
        yield _press("alt+F4"), r"\* mtPaint"  # the toolbar has the keyboard focus
        way = self.way()
        if way == "horizontally":
            yield _press("ctrl+m"), "Modified"
        else:
            yield _press("alt+i"), ""
            yield from self.arrows(MENU[way], "Down", "Up")
            yield _press("Return"), "Modified"
        if not self.wrong:
            yield _press("ctrl+s"), r"\* mtPaint [0-9.]+ - "

    def way(self) -> str:
        """Return the word of the prompt that says how to turn or flip the picture, such as `clockwise`."""
        ways = ("horizontally", "vertically", "anti-clockwise", "clockwise")
        return next(way for way in ways if way in self.prompt)

    def viewer(self) -> Iterator[tuple[Call, str]]:
        yield _launch("viewer", self.path, "Gpicview")
        yield _press("r" if self.way() == "clockwise" else "l"), ""
        if not self.wrong:
            yield _press("s"), r"^\*  \[Gpicview\]"
            yield _press("alt+y"), rf"\* {re.escape(self.name)} "

    def unpack(self) -> Iterator[tuple[Call, str]]:
        packed = next(path for path in self.files if path.endswith(".tar.gz"))
        yield _launch("archiver", packed, "xarchiver")
        yield _press("ctrl+e"), r"\* Extract files"
        yield _type(f"{HOME}/" + self.path.partition("/")[0] + ("s" if self.wrong else "")), ""
        yield _press("Return"), r"\* .* xarchiver"
        yield Call("look", {}), ""

    def text(self) -> Iterator[tuple[Call, str]]:
        yield _launch("editor", self.path, "Mousepad")
        yield _press("ctrl+End"), ""
        yield _type(self.content.splitlines()[-1] + ("0" if self.wrong else "")), r"\* \*"
        yield _press("ctrl+s"), r"\* ~"

    def product(self) -> Iterator[tuple[Call, str]]:
        first, second = re.findall(r"\d+", self.prompt)[:2]
        yield _launch("calculator", "", "Galculator")
        for character in f"{first}*{second}{'0' if self.wrong else ''}":
            yield _type(character), ""  # the program loses keys that are typed fast
        yield _press("Return"), ""
        yield _press("ctrl+c"), ""
        yield _launch("editor", self.path, r"\* .*Mousepad")
        yield _press("ctrl+End"), ""
        yield _press("ctrl+v"), r"\* \*"
        yield _press("ctrl+s"), r"\* ~"

    def move(self) -> Iterator[tuple[Call, str]]:
        target = list(self.expected)[1].partition("/")[0]
        yield from self.chosen()
        yield _press("ctrl+c" if self.wrong else "ctrl+x"), ""
        yield _press("ctrl+l"), ""
        yield _press("ctrl+a"), ""
        yield _type(f"{HOME}/{target}\n"), rf"\* {target} "
        yield _press("ctrl+v"), ""
        yield Call("look", {}), ""

    def delete(self) -> Iterator[tuple[Call, str]]:
        yield from self.chosen()
        if not self.wrong:
            yield _press("shift+Delete"), r"\* Confirm"
            yield _press("Return"), rf"\* {self.path.partition('/')[0]} "

    def chosen(self) -> Iterator[tuple[Call, str]]:
        """Choose the file in the file manager by typing its name."""
        folder = self.path.partition("/")[0]
        yield _launch("files", folder, rf"\* {folder} ")
        yield _type(self.name), ""
        yield _press("Escape"), ""


def _launch(program: str, file: str, window: str) -> tuple[Call, str]:
    return Call("launch", {"program": program, "file": file}), window


def _press(keys: str) -> Call:
    return Call("press", {"keys": keys})


def _type(text: str) -> Call:
    arguments: dict[str, Any] = {"text": text}
    return Call("type", arguments)
