"""`agentgym/desktop-v1`: a virtual screen with real programs, a mouse and a keyboard, in one sandbox."""

from __future__ import annotations

import base64
import json
import re
import shlex
import shutil
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from agentgym import (
    Environment,
    ImagePart,
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
from agentgym.sandbox import Channel, Sandbox

from .documents import Content, bytes_of, content_of
from .judge import TASK_OVER

NEEDED = ("Xvfb", "xdotool", "wmctrl", "openbox", "mousepad", "pcmanfm", "galculator", "xterm")
PACKAGES = "xvfb xdotool wmctrl openbox mousepad pcmanfm galculator xterm fonts-dejavu-core"
WIDTH, HEIGHT, START_S, ACT_S = 800, 600, 60.0, 60.0
HOME = "home"
MAX_FILES, MAX_FILE_BYTES, MAX_ALL_BYTES = 200, 65_536, 262_144
KEYS = re.compile(r"[A-Za-z0-9_]{1,20}(\+[A-Za-z0-9_]{1,20}){0,3}")
BUTTONS = {"left": "1", "middle": "2", "right": "3"}
X = Annotated[int, Field(ge=0, lt=WIDTH)]
Y = Annotated[int, Field(ge=0, lt=HEIGHT)]


class Desktop(Environment):
    """Programs of Debian on a virtual screen. Not isolated: the agent can end them, the display, and the guest process.

    Editor (Mousepad), file manager (PCManFM), calculator (Galculator) and terminal (XTerm) run in one sandbox without
    network, which starts with the first action. An agent that kills the display has no desktop any more, and is judged
    by the current state. Task parameters: `files`, text by path in the home folder;
    `folders`; `programs` that may be launched, by default all; `images`, False to show a list of windows without
    pictures.
    Source: state-based grading as in OSWorld, Xie et al. 2024, arXiv:2404.07972.
    """

    sandbox = SandboxSpec(memory_mib=1024, processes=128, disk_mib=128, open_files=1024)
    reward = "desktop"
    task_set = "gui/desktop-v1"
    _files: dict[str, Any]  # the initial files
    _folders: tuple[str, ...]
    _programs: tuple[str, ...]
    _images: bool
    _requested: ClassVar[Mapping[str, bool]] = {}  # further contents of a screen to request
    _binary: ClassVar[bool] = False  # whether files may be binary

    def __init__(self) -> None:
        self._sandbox: Sandbox | None = None
        self._channel: Channel | None = None
        self._ended_by_agent = False

    @classmethod
    def unavailable_reason(cls) -> str:
        missing = [program for program in NEEDED if shutil.which(program) is None]
        return f"There is no {', '.join(missing)}: apt-get install {PACKAGES}." if missing else ""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Put the task's files into an empty home folder. Raises: TaskError for invalid parameters."""
        self._read_parameters(task)
        if self._channel is not None:
            await self._channel.close()
        self._channel, self._ended_by_agent = None, False
        self._sandbox = await self.default_sandbox(empty=True)
        await self._sandbox.exec(["mkdir", "-p", HOME, *(f"{HOME}/{folder}" for folder in self._folders)])
        for path, content in self._files.items():
            await self._sandbox.write(f"{HOME}/{path}", bytes_of(content))
        settings = self._settings()
        instructions = (
            f"A desktop of {settings['width']} x {settings['height']} pixels. Programs: {', '.join(self._programs)}. "
            "Files lie in the home folder, /work/home. Call done at the end."
        )
        return [Message("system", instructions), *task.opening()]

    @tool(timeout_s=ACT_S, parallel=False)
    async def look(self) -> list[Part]:
        """See the screen as it is."""
        return await self._act()

    @tool(timeout_s=ACT_S, parallel=False)
    async def launch(
        self,
        program: Literal["editor", "files", "calculator", "terminal"],
        file: Annotated[str, Field(max_length=200)] = "",
    ) -> list[Part]:
        """Start a program.

        Args:
            file: what the editor or the file manager opens, as a path in the home folder.
        """
        if program not in self._programs:
            raise ToolError(f"There is no {program} here. Programs: {', '.join(self._programs)}.")
        if file and (program not in ("editor", "files") or file.startswith(("-", "/")) or "\0" in file):
            raise ToolError(f"The {program} cannot open {file!r}: give the editor or files a path in the home folder.")
        return await self._act(["launch", program, file])

    @tool(timeout_s=ACT_S, parallel=False)
    async def click(
        self,
        x: X,
        y: Y,
        button: Literal["left", "middle", "right"] = "left",
        count: Annotated[int, Field(ge=1, le=3)] = 1,
    ) -> list[Part]:
        """Click somewhere, once or several times."""
        press = ["click", "--repeat", str(count), "--delay", "60", BUTTONS[button]]
        return await self._act(["mousemove", str(x), str(y)], press)

    @tool(timeout_s=ACT_S, parallel=False)
    async def drag(self, x: X, y: Y, to_x: X, to_y: Y) -> list[Part]:
        """Press the left button at one place and let it go at another."""
        middle = [str((x + to_x) // 2), str((y + to_y) // 2)]
        return await self._act(
            ["mousemove", str(x), str(y)],
            ["mousedown", "1"],
            ["mousemove", *middle],
            ["mousemove", str(to_x), str(to_y)],
            ["mouseup", "1"],
        )

    @tool(timeout_s=ACT_S, parallel=False)
    async def scroll(self, x: X, y: Y, steps: Annotated[int, Field(ge=-20, le=20)]) -> list[Part]:
        """Turn the wheel over a place: down, or up for negative steps."""
        turn = ["click", "--repeat", str(abs(steps) or 1), "--delay", "20", "5" if steps >= 0 else "4"]
        return await self._act(["mousemove", str(x), str(y)], turn)

    @tool(name="type", timeout_s=ACT_S, parallel=False)
    async def write(self, text: Annotated[str, Field(min_length=1, max_length=500)]) -> list[Part]:
        """Type text into what has the keyboard; a line break is the Return key."""
        if not all(character.isprintable() or character == "\n" for character in text):
            raise ToolError("Only printable characters and line breaks can be typed. Use press for keys such as Tab.")
        steps: list[list[str]] = []
        for index, line in enumerate(text.split("\n")):
            steps += [["key", "Return"]] if index else []
            steps += [["type", "--delay", "3", "--", line]] if line else []
        return await self._act(*steps)

    @tool(timeout_s=ACT_S, parallel=False)
    async def press(self, keys: str) -> list[Part]:
        """Press a key, or several together.

        Args:
            keys: names of X keys, such as Return, Tab, Escape, BackSpace, F2, ctrl+s, ctrl+shift+n, alt+F4.
        """
        if not KEYS.fullmatch(keys):
            raise ToolError(f"{keys[:60]!r} is no key. Write names joined by +, such as Return or ctrl+s.")
        return await self._act(["key", "--", keys])

    @tool(final=True, timeout_s=ACT_S, max_output_chars=8 * MAX_ALL_BYTES, parallel=False)
    async def done(self, answer: Annotated[str, Field(max_length=500)] = "") -> str:
        """End the task.

        Args:
            answer: where the task asks a question.
        """
        assert self._sandbox is not None
        windows: list[dict[str, Any]] = []
        if self._channel is not None and not self._ended_by_agent:
            screen = await self._ask([], image=False)
            windows = [] if screen is None else screen["windows"]
        window_list = sorted([str(window["class"]), str(window["title"])] for window in windows)
        return TASK_OVER + json.dumps({"files": await self._home_files(), "windows": window_list}, ensure_ascii=False)

    async def _act(self, *steps: list[str]) -> list[Part]:
        """Perform steps, then observe the screen. Raises: ToolError if a step is refused or the desktop is gone."""
        if self._channel is None and not self._ended_by_agent:
            await self._start()
        screen = await self._ask(list(steps), image=self._images)
        if screen is None:
            raise ToolError("The desktop has ended: its display or its helper was killed. All that is left is done.")
        if screen["refused"]:
            raise ToolError(f"That could not be done: {screen['refused']}")
        return self._render(screen)

    def _render(self, screen: dict[str, Any]) -> list[Part]:
        """Return a screen as the agent sees it."""
        lines = [
            f"{'*' if window['active'] else '-'} {window['title']} [{window['class']}], "
            f"{window['size'][0]} x {window['size'][1]}"
            for window in screen["windows"]
        ]
        window_text = TextPart("Windows, * has the keyboard:\n" + "\n".join(lines) if lines else "No window is open.")
        return [window_text, ImagePart(screen["png"])] if "png" in screen else [window_text]

    async def _ask(self, steps: list[list[str]], *, image: bool) -> dict[str, Any] | None:
        """Return the screen after some steps; None if the guest process has ended, which only the agent can cause."""
        if self._ended_by_agent or self._channel is None or self._sandbox is None:
            return None
        try:
            screen: dict[str, Any] = await self._channel.request(
                {"steps": steps, **self._requested, "image": image}, timeout_s=ACT_S - 5
            )
            if screen.get("failed"):
                raise SandboxUnavailable(
                    f"The desktop cannot be started: {screen['failed']}. A package of {PACKAGES} may be broken."
                )
            self._validate_screen(screen, image)
            return screen
        except (SandboxDied, TimeoutError, ValueError, KeyError, TypeError):
            await self._sandbox.exec(["true"])  # raises SandboxDied if the whole sandbox has died
            self._ended_by_agent = True
            return None

    def _validate_screen(self, screen: dict[str, Any], image: bool) -> None:
        """Validate the shape of a reply from the sandbox. Raises: ValueError, KeyError, TypeError."""
        screen["refused"] = str(screen["refused"])[:300]
        for window in screen["windows"]:
            window["title"], window["class"] = str(window["title"])[:200], str(window["class"])[:200]
            if len([int(side) for side in window["size"]]) != 2:
                raise ValueError("a window must have a width and a height")
        if image and not base64.b64decode(screen["png"], validate=True).startswith(b"\x89PNG"):
            raise ValueError("the screen is not a PNG image")

    async def _start(self) -> None:
        assert self._sandbox is not None
        for name, content in _guest():
            await self._sandbox.write(f"helper/guest/{name}", content)
        start = f"cd /work/helper && exec python3 -m guest.hub {shlex.quote(json.dumps(self._settings()))}"
        self._channel = await self._sandbox.open_channel(["sh", "-c", start])

    def _settings(self) -> dict[str, Any]:
        """Return the settings that the guest process gets at its start."""
        return {"width": WIDTH, "height": HEIGHT}

    async def _home_files(self) -> dict[str, Content | None]:
        """Return all files below the home folder; None for a long file, and in `v1` for a file that is not text."""
        assert self._sandbox is not None
        listing = await self._sandbox.exec(
            ["find", HOME, "-not", "-path", "*/.*", "-type", "f", "-printf", "%s %P\\0"], max_output_bytes=65_536
        )
        contents: dict[str, Content | None] = {}
        room = MAX_ALL_BYTES
        for entry in sorted(listing.stdout.split(b"\0"))[: MAX_FILES + 1]:
            size, _, raw = entry.partition(b" ")
            path = raw.decode("utf-8", "replace")
            if not path or "\ufffd" in path:
                continue
            contents[path] = None
            if size.isdigit() and int(size) <= min(MAX_FILE_BYTES, room):
                data = await self._sandbox.read(f"{HOME}/{path}")
                room -= len(data)
                content = content_of(data)
                contents[path] = content if self._binary or isinstance(content, str) else None
        return contents

    def _read_parameters(self, task: Task) -> None:
        given = task.parameters
        self._files, self._folders = given.get("files", {}), tuple(given.get("folders", ()))
        self._programs = tuple(given.get("programs", ("editor", "files", "calculator", "terminal")))
        self._images = bool(given.get("images", True))
        if not isinstance(self._files, dict):
            raise TaskError(
                f"{task.id}: parameters['files'] must map paths to contents, but it is {self._files!r:.80}."
            )
        for path, content in self._files.items():
            try:
                size = len(bytes_of(content if self._binary or isinstance(content, str) else {}))
            except (ValueError, TypeError) as error:
                expected = 'text or {"base64": ...}' if self._binary else "text"
                raise TaskError(f"{task.id}: parameters['files'][{path!r}] is not {expected}: {error}.") from error
            if self._binary and size > MAX_FILE_BYTES:
                raise TaskError(
                    f"{task.id}: parameters['files'][{path!r}] has {size} bytes, but at most {MAX_FILE_BYTES} are "
                    "allowed."
                )
        for path in (*self._files, *self._folders):
            if not isinstance(path, str) or path.startswith(("/", "-")) or ".." in path.split("/"):
                raise TaskError(f"{task.id}: {path!r} is not a path inside the home folder.")


@cache
def _guest() -> tuple[tuple[str, bytes], ...]:
    folder = files(__package__) / "guest"
    return tuple((name, (folder / name).read_bytes()) for name in ("__init__.py", "hub.py", "screen.py", "tree.py"))
