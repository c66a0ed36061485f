"""A client of the Chrome DevTools Protocol over a pipe. There is no port, so no page can reach the debugger.

Each message is JSON, ended by a zero byte. Hand-written, because a sandbox has only the standard library.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from .page_cpu import MAX_S, busiest_s, pages_cpu_s

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-smooth-scrolling",  # pages scroll at once, also by keys, and also if their style says `smooth`
    "--hide-scrollbars",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-pings",
    "--disable-background-timer-throttling",
    "--disable-hang-monitor",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-popup-blocking",
    "--password-store=basic",
    "--use-mock-keychain",
    "--force-color-profile=srgb",
    "--lang=en-US",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--remote-debugging-pipe",
    "--proxy-server=127.0.0.1:1",
    "--proxy-bypass-list=<-loopback>",
    "--disable-features=PaintHolding,Translate,MediaRouter,OptimizationHints,"
    "AutofillServerCommunication,SpareRendererForSitePerProcess,DialMediaRouteProvider,HttpsUpgrades,"
    "IsolateOrigins,site-per-process,IsolateSandboxedIframes",
    "--disable-site-isolation-trials",
)
"""`--no-sandbox`: Chromium's own sandbox cannot be nested in ours. The proxy named here leads nowhere: each browser
context is given another.

A page and its frames share a process, so that one session sees them all; each episode still has its own processes.
"""
_CHUNK, _NOTHING, _DIALOG = 1 << 18, object(), object()
_IGNORED = tuple(
    b'{"method":"%s' % name
    for name in (
        *(b"Runtime.console", b"Runtime.exception", b"Runtime.executionContext"),
        *(b"Network.webSocket", b"Network.eventSource", b"Network.policyUpdated"),
        *(b"Network.requestWillBeSentExtraInfo", b"Network.responseReceivedExtraInfo", b"Network.resourceChanged"),
    )
)
"""Events that have no listener, and that a page could send in any number and length."""
Answers = queue.SimpleQueue[Any]  # the answer to one command; None once its page has gone
Posted = tuple[int, Answers]
Listener = Callable[[str, dict[str, Any]], object]


class Refused(Exception):
    """The browser answered a command with an error."""


class Late(Exception):
    """The browser did not answer in time, because the page is busy."""


class Crashed(Exception):
    """The process of the page is gone."""


class DialogOpened(Exception):
    """The page opened a dialog that waits for an answer; until then the page answers no command."""


class ChromiumProcess:
    """One Chromium process. Any thread may send commands; events go to the listener of their session."""

    def __init__(self, program: str, folder: str) -> None:
        """Start Chromium.

        Args:
            program: path of the binary.
            folder: holds its profile and its log.
        """
        read_end, self._commands = os.pipe()
        self._replies, write_end = os.pipe()
        chromium_in, chromium_out = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in (read_end, write_end))

        def connect_pipes() -> None:
            os.dup2(chromium_in, 3)
            os.dup2(chromium_out, 4)

        environment = {
            "HOME": folder,
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "FONTCONFIG_FILE": f"{folder}/fonts.conf",
            "DBUS_SESSION_BUS_ADDRESS": "disabled:",
        }
        with open(f"{folder}/log.txt", "wb") as log:
            self.process = subprocess.Popen(
                [program, *FLAGS, f"--user-data-dir={folder}/profile", "about:blank"],
                preexec_fn=connect_pipes,
                close_fds=False,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )
        for end in (read_end, write_end, chromium_in, chromium_out):
            os.close(end)  # from now on only the browser has its ends of the pipes, which close when it ends
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[str | None, Answers]] = {}
        self._listeners: dict[str | None, Listener] = {}
        self._lock = threading.Lock()
        self.reader = threading.Thread(target=self._read, name="cdp", daemon=True)
        self.reader.start()

    def listen(self, session: str | None, listener: Listener) -> None:
        """Call `listener(method, params)` for every event of a session; None is the browser itself.

        The listener runs on the reading thread, and must not wait for the browser.
        """
        self._listeners[session] = listener

    def forget(self, session: str) -> None:
        self._listeners.pop(session, None)

    def post(self, method: str, params: dict[str, Any] | None = None, session: str | None = None) -> Posted:
        """Send a command without waiting. Returns: the argument for `result`."""
        number = next(self._numbers)
        answers: Answers = queue.SimpleQueue()
        message: dict[str, Any] = {"id": number, "method": method, "params": params or {}}
        if session is not None:
            message["sessionId"] = session
        self._waiting[number] = (session, answers)
        data = json.dumps(message).encode() + b"\0"
        with self._lock:
            while data:
                data = data[os.write(self._commands, data) :]
        return number, answers

    def result(self, posted: Posted, timeout_s: float) -> Any:
        """Wait for the answer to a command. Raises: Late, Refused, Crashed, DialogOpened.

        On a busy host the wait is longer than `timeout_s`, up to a minute: it lasts until a page process has used
        processor time of a quarter of `timeout_s`.
        """
        number, answers = posted
        began, half_s = time.monotonic(), max(timeout_s / 2, 0.001)
        answer = _next(answers, half_s)
        while answer is _NOTHING:
            before = pages_cpu_s()
            answer = _next(answers, half_s)
            late = busiest_s(before, pages_cpu_s()) > half_s / 2 or time.monotonic() - began > max(MAX_S, timeout_s)
            if answer is _NOTHING and late:
                self._waiting.pop(number, None)
                raise Late("the page is busy")
        if answer is None:
            raise Crashed("the page's process has ended")
        if answer is _DIALOG:
            raise DialogOpened
        if "error" in answer:
            raise Refused(str(answer["error"].get("message", "")))
        return answer.get("result", {})

    def call(
        self, method: str, params: dict[str, Any] | None = None, session: str | None = None, timeout_s: float = 10.0
    ) -> Any:
        """Send a command and wait for its answer. Raises: as `result`."""
        return self.result(self.post(method, params, session), timeout_s)

    def fail(self, session: str) -> None:
        """Fail every command that waits for a session whose page is gone."""
        self._end(session, None)

    def interrupt(self, session: str) -> None:
        """Interrupt every command that waits for a session whose page is halted by a dialog."""
        self._end(session, _DIALOG)

    def _end(self, session: str, answer: Any) -> None:
        for number, (owner, answers) in list(self._waiting.items()):
            if owner == session:
                self._waiting.pop(number, None)
                answers.put(answer)

    def _read(self) -> None:
        pieces: list[bytes] = []  # pieces of an incomplete message; joined only once, because a message may be long
        while True:
            chunk = os.read(self._replies, _CHUNK)
            if not chunk:
                return  # the browser has ended; hub.py joins this thread
            first, *others = chunk.split(b"\0")
            pieces.append(first)
            for part in others:
                message = b"".join(pieces)
                pieces = [part]
                if not message.startswith(_IGNORED):
                    self._dispatch(json.loads(message))

    def _dispatch(self, message: dict[str, Any]) -> None:
        if "id" in message:
            _, answers = self._waiting.pop(message["id"], (None, None))
            if answers is not None:
                answers.put(message)
            return
        listener = self._listeners.get(message.get("sessionId"))
        if listener is not None:
            listener(message["method"], message.get("params", {}))


def _next(answers: Answers, timeout_s: float) -> Any:
    """Return the next item of a queue; `_NOTHING` if none comes in time."""
    try:
        return answers.get(timeout=timeout_s)
    except queue.Empty:
        return _NOTHING
