"""Browsers in sandboxes. Several episodes share a browser; an idle one is closed, a dead one is replaced."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import weakref
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from agentgym import SandboxDied, SandboxSpec, SandboxUnavailable
from agentgym.sandbox import Backend, Channel, Sandbox

EPISODES_AT_ONCE, EPISODES_IN_ALL, LINGER_S, START_S = 16, 2_000, 10.0, 90.0
CHROMIUM = "AGENTGYM_CHROMIUM"
_NAMES = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
"""The headless shell comes first: the same engine without windows, at about a third of the processor time."""
_FOLDER = Path("/usr/lib/chromium")
"""Debian's `/usr/bin/chromium*` read the host's settings, then start a binary here. A sandbox starts it directly."""


class Browser:
    """One Chromium in one sandbox, with the guest process that drives it for all its episodes."""

    def __init__(self, sandbox: Sandbox, control: Channel) -> None:
        self.sandbox, self._control = sandbox, control
        self.episodes, self.served = 0, 0
        self._archives: set[str] = set()
        self._writing = asyncio.Lock()

    @classmethod
    async def start(cls, backend: Backend, spec: SandboxSpec) -> Browser:
        """Start Chromium in a new sandbox. Raises: SandboxUnavailable if it is not installed or does not start."""
        program = await asyncio.to_thread(chromium)
        sandbox = await backend.create(spec)
        try:
            for name, content in _guest_files():
                await sandbox.write(name, content)
            control = await sandbox.open_channel(["python3", "-m", "guest.hub", program])
            await control.request({}, timeout_s=START_S)
        except (SandboxDied, TimeoutError, OSError) as error:
            await sandbox.close()
            raise SandboxUnavailable(
                f"Chromium ({program}) cannot be started in a sandbox of {spec.memory_mib} MiB: {str(error)[:800]}"
            ) from error
        except BaseException:
            await sandbox.close()
            raise
        return cls(sandbox, control)

    async def alive(self) -> bool:
        """Return whether the browser answers."""
        try:
            await self._control.request({}, timeout_s=20)
        except (SandboxDied, TimeoutError):
            return False
        return True

    async def open_episode(self) -> Channel:
        """Begin an episode. Returns: its channel; closing the channel closes the episode's browser context."""
        return await self.sandbox.open_channel(["python3", "-I", "-S", "/work/guest/relay.py", "/tmp/hub.sock"])

    async def put(self, archive: bytes) -> str:
        """Write an archive of pages into the sandbox, unless it exists. Returns: its path in the sandbox."""
        path = f"/work/{hashlib.sha256(archive).hexdigest()[:16]}.zip"
        async with self._writing:
            if path not in self._archives:
                await self.sandbox.write(path, archive)
                self._archives.add(path)
        return path


class Browsers:
    """The browsers of one backend and event loop."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._open: list[Browser] = []
        self._lock = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    async def lease(self, spec: SandboxSpec) -> Browser:
        """Return a live browser with room for one more episode; start one if there is none.

        Raises: SandboxUnavailable, LimitUnenforceable.
        """
        async with self._lock:
            for browser in [candidate for candidate in self._open if candidate.episodes < EPISODES_AT_ONCE]:
                if browser.served >= EPISODES_IN_ALL:
                    continue
                if await browser.alive():
                    break
                self._open.remove(browser)
                await browser.sandbox.close()
            else:
                browser = await Browser.start(self._backend, spec)
                self._open.append(browser)
            browser.episodes += 1
            browser.served += 1
            return browser

    def release(self, browser: Browser) -> None:
        """Return a browser to the pool, which closes it after `LINGER_S` seconds without an episode."""
        browser.episodes -= 1
        if browser.episodes == 0 and browser in self._open:
            asyncio.get_running_loop().call_later(LINGER_S, self._close_idle, browser, browser.served)

    async def close(self) -> None:
        """Close every browser now."""
        async with self._lock:
            browsers, self._open = self._open, []
        await asyncio.gather(*(browser.sandbox.close() for browser in browsers), *self._closing)

    def _close_idle(self, browser: Browser, served: int) -> None:
        if browser in self._open and browser.episodes == 0 and browser.served == served:
            self._open.remove(browser)
            task = asyncio.ensure_future(browser.sandbox.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


_all: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.WeakKeyDictionary[Backend, Browsers]] = (
    weakref.WeakKeyDictionary()
)


def browsers_of(backend: Backend) -> Browsers:
    """Return the browsers of a backend in the running event loop."""
    of_loop = _all.setdefault(asyncio.get_running_loop(), weakref.WeakKeyDictionary())
    return of_loop.setdefault(backend, Browsers(backend))


async def close_browsers() -> None:
    """Close every browser of the running event loop now, instead of after it has been idle."""
    for browsers in list(_all.get(asyncio.get_running_loop(), {}).values()):
        await browsers.close()


def chromium() -> str:
    """Return the path of Chromium. Raises: SandboxUnavailable if no sandbox can see one."""
    named = os.environ.get(CHROMIUM)
    path = named or next((path for path in map(shutil.which, _NAMES) if path), None)
    if path is None or not Path(path).exists():
        raise SandboxUnavailable(
            f"No Chromium {f'at {named}, which ${CHROMIUM} names' if named else 'was found'}. Install it (Debian: "
            f"apt-get install chromium-headless-shell, or chromium), or name the binary in ${CHROMIUM}."
        )
    path = os.path.realpath(path)
    if path.startswith("/usr/bin/") and (_FOLDER / Path(path).name).exists():
        path = str(_FOLDER / Path(path).name)
    if not path.startswith("/usr/"):
        raise SandboxUnavailable(f"{path} is not below /usr, so a sandbox cannot see it. Install Chromium below /usr.")
    return path


@cache
def _guest_files() -> tuple[tuple[str, bytes], ...]:
    """Return path and content of each guest file."""

    def walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
        contents: list[Any] = []
        for item in folder.iterdir():
            if item.is_dir():
                contents += walk(item, f"{prefix}/{item.name}")
            elif item.name.endswith(".py"):
                contents.append((f"{prefix}/{item.name}", item.read_bytes()))
        return sorted(contents)

    return tuple(walk(files("agentgym.sandboxes.gui").joinpath("guest"), "guest"))
