"""Browsers in sandboxes, each shared by several episodes: leased, kept warm for a while, replaced when they die."""

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

from agentgym import SandboxSpec
from agentgym.errors import SandboxDied, SandboxUnavailable
from agentgym.sandbox import Backend, Channel, Sandbox

EPISODES_AT_ONCE, EPISODES_IN_ALL, LINGER_S, START_S = 16, 2_000, 10.0, 90.0
CHROMIUM = "AGENTGYM_CHROMIUM"
_NAMES = (
    "chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome",
    "google-chrome-stable", "chrome",
)  # fmt: skip
"""The headless shell first: the same engine without the windows, an episode at about a third of the processor time."""
_FOLDER = Path("/usr/lib/chromium")
"""What Debian's `/usr/bin/chromium*` start after reading settings of the host, which a sandbox does not see."""


class Browser:
    """One Chromium in one sandbox, with the process that drives it for all its episodes."""

    def __init__(self, machine: Sandbox, control: Channel) -> None:
        self.machine, self._control = machine, control
        self.episodes, self.served = 0, 0
        self._archives: set[str] = set()
        self._writing = asyncio.Lock()

    @classmethod
    async def start(cls, backend: Backend, spec: SandboxSpec) -> Browser:
        """Raises: SandboxUnavailable if there is no Chromium, or it does not come up."""
        program = await asyncio.to_thread(chromium)
        machine = await backend.create(spec)
        try:
            for name, content in _guest():
                await machine.write(name, content)
            control = await machine.open_channel(["python3", "-m", "guest.hub", program])
            await control.request({}, timeout_s=START_S)
        except (SandboxDied, TimeoutError, OSError) as error:
            await machine.close()
            raise SandboxUnavailable(
                f"Chromium ({program}) does not start in a sandbox of {spec.memory_mib} MiB: {str(error)[:800]}"
            ) from error
        except BaseException:
            await machine.close()
            raise
        return cls(machine, control)

    async def alive(self) -> bool:
        """Whether it answers."""
        try:
            await self._control.request({}, timeout_s=20)
        except (SandboxDied, TimeoutError):
            return False
        return True

    async def open_episode(self) -> Channel:
        """A line to an episode of its own. Its context lives as long as the channel."""
        return await self.machine.open_channel(["python3", "-I", "-S", "/work/guest/relay.py", "/tmp/hub.sock"])

    async def put(self, archive: bytes) -> str:
        """Put an archive of pages into the sandbox, once. Returns: its path there."""
        path = f"/work/{hashlib.sha256(archive).hexdigest()[:16]}.zip"
        async with self._writing:
            if path not in self._archives:
                await self.machine.write(path, archive)
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
        """A living browser with room for one more episode; another is started where there is none.

        Raises: SandboxUnavailable, LimitUnenforceable.
        """
        async with self._lock:
            for browser in [one for one in self._open if one.episodes < EPISODES_AT_ONCE]:
                if browser.served >= EPISODES_IN_ALL:
                    continue
                if await browser.alive():
                    break
                self._open.remove(browser)
                await browser.machine.close()
            else:
                browser = await Browser.start(self._backend, spec)
                self._open.append(browser)
            browser.episodes += 1
            browser.served += 1
            return browser

    def release(self, browser: Browser) -> None:
        """Give a browser back; when nobody has used it for a while it is closed."""
        browser.episodes -= 1
        if browser.episodes == 0 and browser in self._open:
            asyncio.get_running_loop().call_later(LINGER_S, self._close_idle, browser, browser.served)

    async def close(self) -> None:
        """Close every browser now."""
        async with self._lock:
            browsers, self._open = self._open, []
        await asyncio.gather(*(browser.machine.close() for browser in browsers), *self._closing)

    def _close_idle(self, browser: Browser, served: int) -> None:
        if browser in self._open and browser.episodes == 0 and browser.served == served:
            self._open.remove(browser)
            task = asyncio.ensure_future(browser.machine.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


_all: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.WeakKeyDictionary[Backend, Browsers]] = (
    weakref.WeakKeyDictionary()
)


def browsers_of(backend: Backend) -> Browsers:
    """The browsers of a backend in the running event loop."""
    of_loop = _all.setdefault(asyncio.get_running_loop(), weakref.WeakKeyDictionary())
    return of_loop.setdefault(backend, Browsers(backend))


async def close_browsers() -> None:
    """Close every browser of the running event loop at once, instead of when it has been idle for a while."""
    for browsers in list(_all.get(asyncio.get_running_loop(), {}).values()):
        await browsers.close()


def chromium() -> str:
    """Path of the browser. Raises: SandboxUnavailable if there is none that a sandbox can see."""
    named = os.environ.get(CHROMIUM)
    found = named or next((path for path in map(shutil.which, _NAMES) if path), None)
    if found is None or not Path(found).exists():
        raise SandboxUnavailable(
            f"No Chromium {f'at {named}, which ${CHROMIUM} names' if named else 'was found'}. Install it (Debian: "
            f"apt-get install chromium-headless-shell, or chromium), or name the binary in ${CHROMIUM}."
        )
    found = os.path.realpath(found)
    if found.startswith("/usr/bin/") and (_FOLDER / Path(found).name).exists():
        found = str(_FOLDER / Path(found).name)
    if not found.startswith("/usr/"):
        raise SandboxUnavailable(f"{found} is not below /usr, and a sandbox sees no other programs of the host.")
    return found


@cache
def _guest() -> tuple[tuple[str, bytes], ...]:
    """Names and contents of what runs inside."""

    def walk(folder: Traversable, at: str) -> list[tuple[str, bytes]]:
        found: list[Any] = []
        for item in folder.iterdir():
            if item.is_dir():
                found += walk(item, f"{at}/{item.name}")
            elif item.name.endswith(".py"):
                found.append((f"{at}/{item.name}", item.read_bytes()))
        return sorted(found)

    return tuple(walk(files("agentgym.sandboxes.gui").joinpath("guest"), "guest"))
