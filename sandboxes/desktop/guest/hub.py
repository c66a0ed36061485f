"""The guest process: starts the display and its programs, and serves one request for each JSON line."""

from __future__ import annotations

import base64
import json
import os
import re
import select
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

from .screen import png, read_screen

HOME = "/work/home"
BUFFER, BUS = "/tmp/screen", "/tmp/bus"
FAMILY = "/usr/share/fonts/truetype/dejavu"  # reading all fonts of a host would take most of the start-up time
FONTS = (
    '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>'
    f"<dir>{FAMILY if os.path.isdir(FAMILY) else '/usr/share/fonts'}</dir><cachedir>/work/cache/fonts</cachedir>"
    "</fontconfig>"
)
SETTINGS = "[Settings]\ngtk-cursor-blink=0\ngtk-enable-animations=0\ngtk-font-name=DejaVu Sans 10\n"
PROGRAMS = {
    "editor": ["mousepad", "--disable-server"],
    "files": ["pcmanfm"],
    "calculator": ["galculator"],
    "terminal": ["xterm", "-fa", "DejaVu Sans Mono", "-fs", "10", "-e", "bash", "--norc"],
}
QUIET_S, SETTLE_S, UP_S, WINDOW_S, TOOL_S = 0.1, 1.5, 25.0, 8.0, 10.0
MAX_WINDOWS, MAX_TITLE = 40, 200


class DesktopSession:
    """The display and the programs on it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        """Use the settings `width`, `height`, and optionally `programs`, `windows`, `window_s` and `tree`."""
        width, height = settings["width"], settings["height"]
        self.programs: dict[str, list[str]] = settings.get("programs", PROGRAMS)
        self.expected_windows: dict[str, str] = settings.get("windows", {})
        self.window_s: float = settings.get("window_s", WINDOW_S)
        self.environment = {
            "HOME": HOME,
            "DISPLAY": ":7",
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            "USER": "agent",
            "SHELL": "/bin/bash",
            "PS1": "$ ",
            "XDG_CONFIG_HOME": "/work/config",
            "XDG_CACHE_HOME": "/work/cache",
            "XDG_DATA_HOME": "/work/data",
            "XDG_RUNTIME_DIR": "/tmp",
            "FONTCONFIG_FILE": "/work/config/fonts.conf",
            "GSETTINGS_BACKEND": "memory",
            "NO_AT_BRIDGE": "1",
            "HISTFILE": "/dev/null",
        }
        for folder in (HOME, BUFFER, "/work/config/gtk-3.0", "/work/config/galculator", "/work/cache", "/work/data"):
            os.makedirs(folder, exist_ok=True)
        self._write("/work/config/fonts.conf", FONTS)
        self._write("/work/config/gtk-3.0/settings.ini", SETTINGS)
        self._write(HOME + "/.Xdefaults", "XTerm*cursorBlink: false\nXTerm*selectToClipboard: true\n")
        size = f"{width}x{height}x24"
        self._start(["Xvfb", ":7", "-screen", "0", size, "-fbdir", BUFFER, "-nolisten", "tcp", "-noreset"])
        self._wait_until(lambda: self._tool("getmouselocation").returncode == 0, "The display does not come up")
        self._start(["openbox"])
        self._wait_until(lambda: self._tool("get_num_desktops").returncode == 0, "The window manager does not come up")
        self._tool("mousemove", str(width - 2), str(height - 2))
        self.trees = Trees(self.environment, self._start) if settings.get("tree") else None

    def _write(self, path: str, text: str) -> None:
        with open(path, "w") as file:
            file.write(text)

    def _start(self, argv: list[str]) -> None:
        subprocess.Popen(
            argv,
            env=self.environment,
            cwd=HOME,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _tool(self, *words: str, program: str = "xdotool") -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                [program, *words], env=self.environment, capture_output=True, timeout=TOOL_S, check=False
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(words, 124, b"", b"it took too long")

    def _wait_until(self, condition: Callable[[], bool], error_text: str) -> None:
        deadline = time.monotonic() + UP_S
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(error_text)
            time.sleep(0.02)

    def launch(self, program: str, file: str) -> str:
        before = {window["id"] for window in self.windows()}
        self._start(self.programs[program] + ([file] if file else []))
        expected = re.compile(self.expected_windows.get(program, ""))
        deadline = time.monotonic() + self.window_s
        while time.monotonic() < deadline:
            for window in self.windows():
                if window["id"] not in before and expected.search(f"{window['title']}\n{window['class']}"):
                    return ""
            time.sleep(0.05)
        return "no window of it came up"

    def act(self, *words: str) -> str:
        completed = self._tool(*words)
        return (
            "" if completed.returncode == 0 else completed.stderr.decode("utf-8", "replace")[:200] or "xdotool failed"
        )

    def windows(self) -> list[dict[str, object]]:
        """Return the windows of programs, with class, title and size; `active` marks the one with keyboard focus."""
        active = self._tool("getactivewindow").stdout.strip()
        windows = []
        for line in self._tool("-lxG", program="wmctrl").stdout.decode("utf-8", "replace").splitlines()[:MAX_WINDOWS]:
            words = line.split(None, 8)
            if len(words) < 8 or words[1] == "-1":
                continue
            number, size = int(words[0], 16), [int(side) for side in words[4:6]]
            title = words[8] if len(words) > 8 else ""
            windows.append(
                {
                    "id": number,
                    "class": words[6].rpartition(".")[2][:MAX_TITLE],
                    "title": title[:MAX_TITLE],
                    "active": active == str(number).encode(),
                    "size": size,
                }
            )
        return windows

    def settle(self) -> None:
        """Wait until the screen stops changing, at most `SETTLE_S` seconds."""
        deadline, last, since = time.monotonic() + SETTLE_S, None, time.monotonic()
        while time.monotonic() < deadline:
            with open(BUFFER + "/Xvfb_screen0", "rb") as file:
                now = zlib.adler32(file.read())
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since >= QUIET_S:
                return
            time.sleep(0.02)

    def look(self, image: bool, tree: bool = False) -> dict[str, object]:
        self.settle()
        screen: dict[str, object] = {"windows": self.windows()}
        if image:
            screen["png"] = base64.b64encode(png(*read_screen(BUFFER + "/Xvfb_screen0"))).decode()
        if tree and self.trees is not None:
            screen["tree"] = self.trees.look()
        return screen


class Trees:
    """The accessibility bus of this display, and the process that reads trees from it."""

    def __init__(self, environment: dict[str, str], start: Callable[[list[str]], None]) -> None:
        """Start the buses, and change `environment` so that programs join them."""
        environment["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={BUS}"
        environment["GTK_MODULES"] = "gail:atk-bridge"  # GTK 2 joins the bus by this; later versions join by themselves
        del environment["NO_AT_BRIDGE"]
        self._environment = environment
        start(["dbus-daemon", "--session", "--nofork", f"--address={environment['DBUS_SESSION_BUS_ADDRESS']}"])
        deadline = time.monotonic() + UP_S
        while not os.path.exists(BUS):
            if time.monotonic() > deadline:
                raise RuntimeError("The session bus did not start")
            time.sleep(0.02)
        start(["/usr/libexec/at-spi-bus-launcher", "--launch-immediately"])
        self._reader = self._begin(deadline)

    def look(self) -> list[str]:
        """Return what is on the screen, one line per element; if programs do not answer, a line that says so."""
        if self._reader.poll() is not None:
            self._reader = self._begin(time.monotonic() + TOOL_S)
        try:
            self._reader.stdin.write(b"\n")  # type: ignore[union-attr]
            self._reader.stdin.flush()  # type: ignore[union-attr]
        except OSError:
            pass  # it has ended
        lines = self._answer(TOOL_S)
        if lines is None:
            self._reader.kill()
            return ["(the tree cannot be read: a program does not answer)"]
        return lines

    def _begin(self, deadline: float) -> subprocess.Popen[bytes]:
        """Return the reading process; start it again until it finds the bus. Raises: RuntimeError."""
        program = os.path.join(os.path.dirname(__file__), "tree.py")
        while time.monotonic() < deadline:
            self._reader = subprocess.Popen(
                ["/usr/bin/python3", program],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            if self._answer(deadline - time.monotonic()) is not None:
                return self._reader
            self._reader.kill()
            self._reader.wait()
            time.sleep(0.05)
        raise RuntimeError("The accessibility bus did not start")

    def _answer(self, limit_s: float) -> list[str] | None:
        """Return the next line of the reading process; None if none comes."""
        output = self._reader.stdout
        assert output is not None
        if not select.select([output], [], [], max(limit_s, 0.0))[0]:
            return None
        try:
            lines: list[str] = json.loads(output.readline())
        except ValueError:
            return None
        return lines


def main() -> None:
    settings = json.loads(sys.argv[1])
    desktop, failed = None, ""
    try:
        desktop = DesktopSession(settings)
    except (RuntimeError, OSError) as error:
        failed = str(error)
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, object] = {"failed": failed}
        if desktop is not None:
            refusal = ""
            for step in request.get("steps", []):
                refusal = desktop.launch(*step[1:]) if step[0] == "launch" else desktop.act(*step)
                if refusal:
                    break
            answer = {**desktop.look(request.get("image", False), request.get("tree", False)), "refused": refusal}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
