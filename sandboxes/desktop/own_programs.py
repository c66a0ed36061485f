"""`agentgym/desktop-v2`: a desktop whose programs and size the task chooses, with the accessibility tree."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from agentgym import (
    Checkpoint,
    Message,
    Part,
    SandboxDied,
    SandboxSpec,
    SandboxUnavailable,
    Task,
    TaskError,
    TextPart,
    ToolError,
    tool,
)

from .environment import ACT_S, BUTTONS, HEIGHT, WIDTH, Desktop

View = Literal["screenshot", "tree"]
VIEWS: tuple[View, ...] = ("screenshot", "tree")
NEEDED = {"Xvfb": "xvfb", "xdotool": "xdotool", "wmctrl": "wmctrl", "openbox": "openbox"}
READS_TREES = (
    "/usr/bin/python3 -c \"import gi; gi.require_version('Atspi', '2.0')\" && command -v dbus-daemon && "
    "test -x /usr/libexec/at-spi-bus-launcher"
)
TREE_PACKAGES = "at-spi2-core dbus-daemon gir1.2-atspi-2.0 python3-gi"
SIZES, LAUNCH_S, LATE_S = (200, 4_096), 30.0, 1.0
MAX_LINE, MAX_POINTS = 500, 50
Position = Annotated[int, Field(ge=0, lt=SIZES[1])]
Point = Annotated[list[int], Field(min_length=2, max_length=2)]


@dataclass(frozen=True, slots=True)
class DesktopProgram:
    """A program: its command, its Debian package, the window to wait for, and whether it can open a file."""

    command: tuple[str, ...]
    package: str
    window: str = ""
    opens: bool = False


XTERM = ("xterm", "-fa", "DejaVu Sans Mono", "-fs", "10", "-e", "bash", "--norc")
USUAL = {
    "editor": DesktopProgram(("mousepad", "--disable-server"), "mousepad", "Mousepad", opens=True),
    "files": DesktopProgram(("pcmanfm",), "pcmanfm", "Pcmanfm", opens=True),
    "calculator": DesktopProgram(("galculator",), "galculator", "Galculator"),
    "terminal": DesktopProgram(XTERM, "xterm", "XTerm"),
}
"""The default programs of a task."""


class DesktopPrograms(Desktop):
    """A virtual screen with the task's own programs. Not isolated: the agent can end them, the display and the guest.

    Like `desktop-v1`, in one sandbox without network. Task parameters: `programs`, objects by name with `command` (a
    list), `package` (its Debian package), `window` (a regular expression for the title or class of its window) and
    `opens` (true if it can open a file); by default editor, files, calculator and terminal. `size` of
    the screen, by default [800, 600]; `files`, text or `{"base64": ...}` by path in the home folder; `folders`.

    A checkpoint holds the actions, and restoring repeats them. Restoring fails if the files, windows or pixels then
    differ, so a program that shows the time or draws at random cannot be restored.

    Args:
        observe: what the agent sees in addition to the list of windows: `screenshot`, `tree` (what the programs tell
            screen readers, through AT-SPI), or both.
        max_chars: the most characters shown of the tree.
    """

    task_set = "gui/office-v1"

    sandbox = SandboxSpec(memory_mib=2048, processes=256, disk_mib=256, open_files=2048)
    _requested: ClassVar[Mapping[str, bool]] = {"tree": True}
    _binary: ClassVar[bool] = True

    def __init__(self, *, observe: Sequence[View] = ("screenshot",), max_chars: int = 6_000) -> None:
        if unknown := [view for view in observe if view not in VIEWS]:
            raise ValueError(f"Desktop has no view {unknown[0]!r}. Its views are: {', '.join(VIEWS)}.")
        if max_chars < 200:
            raise ValueError(f"max_chars = {max_chars} is not valid: Desktop needs at least 200.")
        super().__init__()
        self._observe, self._max_chars = tuple(observe), max_chars
        self._chosen: dict[str, DesktopProgram] = {}
        self._size = (WIDTH, HEIGHT)
        self._done: list[list[list[str]]] = []  # the steps of every action

    @classmethod
    def unavailable_reason(cls) -> str:
        missing = [program for program in NEEDED if shutil.which(program) is None]
        packages = " ".join(NEEDED[program] for program in missing)
        return f"There is no {', '.join(missing)}: apt-get install {packages} fonts-dejavu-core." if missing else ""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Put the task's files into an empty home folder.

        Raises: TaskError for invalid parameters; SandboxUnavailable if a program is not installed.
        """
        self._done = []
        opening = await super().reset(task, seed=seed)
        assert self._sandbox is not None
        for name, program in self._chosen.items():
            lookup = await self._sandbox.exec(["sh", "-c", 'command -v "$0"', program.command[0]])
            if lookup.exit_code != 0:
                raise SandboxUnavailable(
                    f"{task.id}: the program {name!r} needs {program.command[0]}, which is not installed. Run: "
                    f"apt-get install {program.package}"
                )
        if "tree" in self._observe and (await self._sandbox.exec(["sh", "-c", READS_TREES])).exit_code != 0:
            raise SandboxUnavailable(
                f"The accessibility tree cannot be read on this machine. Run: apt-get install {TREE_PACKAGES}"
            )
        return opening

    async def checkpoint(self) -> Checkpoint | None:
        """Return the actions so far, and a hash of the files, windows and pixels that they led to."""
        return Checkpoint({"done": [list(steps) for steps in self._done], "key": await self._state()})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        """Repeat the actions in a fresh sandbox. Raises: SandboxDied if they now lead to another state."""
        await self.reset(task, seed=seed)
        for steps in checkpoint.data["done"]:
            with suppress(ToolError):  # the step was refused the first time too
                await self._act(*steps)
        if await self._state() == checkpoint.data["key"]:
            return
        await asyncio.sleep(LATE_S)  # a program may draw late on a busy machine
        if await self._state() != checkpoint.data["key"]:
            raise SandboxDied(
                f"{task.id}: the same {len(self._done)} actions led to other files, windows or pixels than before. "
                "Either an action came too early, or a program shows something that changes by itself."
            )

    @tool(timeout_s=ACT_S, parallel=False)
    async def launch(self, program: str, file: Annotated[str, Field(max_length=200)] = "") -> list[Part]:
        """Start a program.

        Args:
            file: what the program opens, as a path in the home folder.
        """
        if program not in self._chosen:
            raise ToolError(f"There is no {program[:60]!r} here. Programs: {', '.join(self._chosen)}.")
        if file and (not self._chosen[program].opens or file.startswith(("-", "/")) or "\0" in file):
            openers = ", ".join(name for name, chosen in self._chosen.items() if chosen.opens) or "none"
            raise ToolError(
                f"The {program} cannot open {file!r}: give a path in the home folder, to a program that opens files: "
                f"{openers}."
            )
        return await self._act(["launch", program, file])

    @tool(timeout_s=ACT_S, parallel=False)
    async def move(self, x: Position, y: Position) -> list[Part]:
        """Move the pointer without a click."""
        return await self._act(self._to(x, y))

    @tool(timeout_s=ACT_S, parallel=False)
    async def click(
        self,
        x: Position,
        y: Position,
        button: Literal["left", "middle", "right"] = "left",
        count: Annotated[int, Field(ge=1, le=3)] = 1,
    ) -> list[Part]:
        """Click somewhere, once or several times."""
        press = ["click", "--repeat", str(count), "--delay", "60", BUTTONS[button]]
        return await self._act(self._to(x, y), press)

    @tool(timeout_s=ACT_S, parallel=False)
    async def drag(
        self,
        x: Position,
        y: Position,
        to_x: Position,
        to_y: Position,
        path: Annotated[list[Point], Field(max_length=MAX_POINTS)] | None = None,
    ) -> list[Part]:
        """Press the left button at one place and let it go at another.

        Args:
            path: places to pass on the way, as [x, y]; otherwise the way is straight.
        """
        way = [self._to(*point) for point in path or [[(x + to_x) // 2, (y + to_y) // 2]]]
        return await self._act(self._to(x, y), ["mousedown", "1"], *way, self._to(to_x, to_y), ["mouseup", "1"])

    @tool(timeout_s=ACT_S, parallel=False)
    async def scroll(self, x: Position, y: Position, steps: Annotated[int, Field(ge=-20, le=20)]) -> list[Part]:
        """Turn the wheel over a place: down, or up for negative steps."""
        turn = ["click", "--repeat", str(abs(steps) or 1), "--delay", "20", "5" if steps >= 0 else "4"]
        return await self._act(self._to(x, y), turn)

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _to(self, x: int, y: int) -> list[str]:
        """Return the step that moves the pointer to a point. Raises: ToolError if it is outside the screen."""
        width, height = self._size
        if not (0 <= x < width and 0 <= y < height):
            raise ToolError(f"{x},{y} is outside of the screen of {width} x {height} pixels.")
        return ["mousemove", str(x), str(y)]

    async def _act(self, *steps: list[str]) -> list[Part]:
        self._done.append([list(step) for step in steps])
        return await super()._act(*steps)

    def _render(self, screen: dict[str, Any]) -> list[Part]:
        parts = super()._render(screen)
        if "tree" in self._observe:
            parts.insert(1, TextPart("Elements, with the middle of each:\n" + self._cut(screen["tree"])))
        return parts

    def _cut(self, lines: Sequence[str]) -> str:
        """Return as many of the lines as may be shown."""
        room, excerpt = self._max_chars, list[str]()
        for line in lines:
            room -= len(line) + 1
            if room < 0:
                return "\n".join([*excerpt, f"[cut: {len(lines) - len(excerpt)} more elements]"])
            excerpt.append(line)
        return "\n".join(excerpt) or "(none)"

    def _validate_screen(self, screen: dict[str, Any], image: bool) -> None:
        super()._validate_screen(screen, image)
        if "tree" in self._observe:
            screen["tree"] = [str(line)[:MAX_LINE] for line in screen["tree"]]

    async def _state(self) -> str:
        screen = await self._ask([], image=True)
        windows = screen and [[window["class"], window["title"], window["size"]] for window in screen["windows"]]
        state = [await self._home_files(), windows, screen and screen["png"]]
        return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()

    def _settings(self) -> dict[str, Any]:
        return {
            "width": self._size[0],
            "height": self._size[1],
            "programs": {name: program.command for name, program in self._chosen.items()},
            "windows": {name: program.window for name, program in self._chosen.items()},
            "window_s": LAUNCH_S,
            "tree": "tree" in self._observe,
        }

    def _read_parameters(self, task: Task) -> None:
        given = task.parameters
        programs, size = given.get("programs"), given.get("size", (WIDTH, HEIGHT))
        self._chosen = USUAL if programs is None else _programs(task, programs)
        if (
            not isinstance(size, (list, tuple))
            or len(size) != 2
            or not all(isinstance(side, int) and SIZES[0] <= side <= SIZES[1] for side in size)
        ):
            raise TaskError(
                f"{task.id}: parameters['size'] must be width and height from {SIZES[0]} to {SIZES[1]}, not "
                f"{size!r:.80}."
            )
        super()._read_parameters(task)
        self._size, self._programs = (size[0], size[1]), tuple(self._chosen)
        self._images = "screenshot" in self._observe


def _programs(task: Task, given: Any) -> dict[str, DesktopProgram]:
    """Return the programs that a task names. Raises: TaskError."""
    if not isinstance(given, Mapping) or not given:
        raise TaskError(
            f"{task.id}: parameters['programs'] must map names of programs to objects, but it is {given!r:.80}."
        )
    chosen: dict[str, DesktopProgram] = {}
    for name, raw in given.items():
        where = f"{task.id}: parameters['programs'][{name!r}]"
        fields = dict(raw) if isinstance(raw, Mapping) else {}
        if unknown := fields.keys() - {"command", "package", "window", "opens"}:
            raise TaskError(
                f"{where} has unknown fields {sorted(unknown)}. A program has command, package, window and opens."
            )
        command, package = fields.get("command"), fields.get("package")
        if not isinstance(command, (list, tuple)) or not command or not all(isinstance(part, str) for part in command):
            raise TaskError(f"{where}['command'] must be a list of texts, not {command!r:.80}.")
        if not isinstance(package, str) or not package:
            raise TaskError(
                f"{where}['package'] is {package!r:.80}. Give the Debian package that contains {command[0]}."
            )
        window = fields.get("window", "")
        try:
            re.compile(window)
        except (re.error, TypeError) as error:
            raise TaskError(
                f"{where}['window'] is {window!r:.80}, which is not a regular expression: {error}."
            ) from error
        chosen[str(name)] = DesktopProgram(tuple(command), package, window, bool(fields.get("opens", False)))
    return chosen
