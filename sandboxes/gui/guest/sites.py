"""The sites of an episode: a folder of pages, a MiniWoB++ task, or a bundled application."""

from __future__ import annotations

import contextlib
import io
import json
import mimetypes
import posixpath
import threading
import zipfile
from typing import Any
from urllib.parse import unquote

from .apps import APPS
from .cdp import Refused
from .page_clock import PAGE_CLOCK
from .page_request import SAFE, PageRequest, PageResponse
from .tab import LOAD_S, Tab

_TIMELESS_MS = 2_000_000_000  # the longest timeout of a page
_BY_CLOCK = frozenset({"button-delay", "chase-circle", "moving-items", "stock-market"})
"""Tasks of MiniWoB++ whose reward depends on the time of actions. However slow the agent or the host is, an action
takes `ACTION_S` seconds of the page's clock, and `wait` additionally its own duration.
"""
ACTION_S = 0.25


class SiteFailed(Exception):
    """The task's own site cannot be started, or one of its commands fails. The message is for the task's author."""


class Site:
    """Serves the pages of one episode. `start` is the first address; only `hosts` can be reached."""

    def __init__(self, host: str, path: str = "/") -> None:
        self.hosts: tuple[str, ...] = (host,)
        self.start = f"http://{host}{path}"
        self.lock, self.address = threading.Lock(), ""

    def open(self) -> None:
        """Prepare to serve requests."""

    def close(self) -> None:
        """Undo `open`."""

    def respond(self, request: PageRequest) -> PageResponse:
        """Return the page for a request."""
        raise NotImplementedError

    def begin(self, tab: Tab) -> Any:
        """Prepare the first page. Returns: the task's text on the page, or ''."""
        return ""

    def acted(self, tab: Tab, waited_s: float) -> None:
        """Record an action of the agent; `waited_s` is how long a `wait` took, and 0 for other actions."""

    def state(self) -> Any:
        """Return state that the page does not show, as plain data for the state key."""
        return None

    def over(self, tab: Tab) -> bool:
        """Return whether the page itself has ended the task."""
        return False

    def steps(self) -> tuple[int, int, int] | None:
        """For an application with steps: return the number of steps taken, taken correctly, and of all steps."""
        return None

    def outcome(self, tab: Tab, url: str) -> dict[str, Any]:
        """Return the end state for the reward; `url` is the last address shown."""
        return {}


class Folder(Site):
    """Pages as files, served like a static site: index files, names without `.html`, the site's 404 page.

    `archive` holds the files. `state` is a script that returns the effects for the reward at the end.
    """

    _charset = "; charset=utf-8"

    def __init__(self, archive: zipfile.ZipFile, host: str, path: str, state: str = "") -> None:
        super().__init__(host, path)
        self._archive, self._state = archive, state
        self._names = set(archive.namelist())

    def respond(self, request: PageRequest) -> PageResponse:
        if request.method != "GET":
            return PageResponse("This site is a folder of files: nothing can be sent to it.", status=405)
        name = posixpath.normpath(unquote(request.path)).strip("/").removeprefix(".")
        for candidate in (name, f"{name}/index.html".lstrip("/"), f"{name}.html"):
            if candidate not in self._names:
                continue
            if candidate == f"{name}/index.html" and not request.path.endswith("/"):
                return PageResponse("", status=301, location=f"http://{self.hosts[0]}{request.path}/")
            body, kind = self._archive.read(candidate), mimetypes.guess_type(candidate)[0] or "application/octet-stream"
            return PageResponse(body, f"{kind}{self._charset}" if kind.startswith("text/") and _is_utf8(body) else kind)
        own = self._archive.read("404.html") if "404.html" in self._names else "There is no such page."
        return PageResponse(own, status=404)

    def begin(self, tab: Tab) -> Any:
        if self._state:
            compiled = tab.call(
                "Runtime.compileScript", {"expression": self._state, "sourceURL": "", "persistScript": False}
            )
            if "exceptionDetails" in compiled:
                about = compiled["exceptionDetails"].get("exception", {}).get("description", "")
                raise SiteFailed(f"its state script is not valid JavaScript: {about[:300]}")
        return super().begin(tab)

    def outcome(self, tab: Tab, url: str) -> dict[str, Any]:
        outcome: dict[str, Any] = {"url": url}
        if self._state:
            effects = tab.evaluate(self._state, wait=True)
            if not isinstance(effects, dict):
                raise SiteFailed(f"its state script must return an object, not {json.dumps(effects)[:200]}")
            outcome["effects"] = effects
        return outcome


class MiniWob(Folder):
    """A task of MiniWoB++. Its reward is read from variables of the page, which no action of the agent can change.

    The reward is the page's raw reward, without the decay over time; the page's own time limit is off.
    """

    _charset = ""

    def __init__(self, archive: zipfile.ZipFile, name: str, seed: int) -> None:
        super().__init__(archive, "miniwob.test", f"/miniwob/{name}.html")
        self._seed, self._by_clock = seed, name in _BY_CLOCK
        self._ended: float | None = None

    def respond(self, request: PageRequest) -> PageResponse:
        answer = super().respond(request)
        if self._by_clock and answer.kind == "text/html":
            answer.body = answer.body.replace(b"<head>", b"<head><script>%s</script>" % PAGE_CLOCK.encode(), 1)
        return answer

    def acted(self, tab: Tab, waited_s: float) -> None:
        if self._by_clock:
            with contextlib.suppress(Refused):  # the page has been left
                tab.evaluate(f"pageClock.advance({1000 * (waited_s + ACTION_S):.0f})")

    def begin(self, tab: Tab) -> Any:
        return tab.evaluate(_BEGIN_MINIWOB % (json.dumps(str(self._seed)), _TIMELESS_MS), LOAD_S, wait=True)

    def over(self, tab: Tab) -> bool:
        if self._ended is None:
            try:
                done, reward = tab.evaluate("[WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL]") or (False, 0)
            except Exception:  # noqa: BLE001  the page was left: it has not ended the task
                done, reward = False, 0
            if done is True and isinstance(reward, (int, float)):
                self._ended = float(reward)
        return self._ended is not None

    def outcome(self, tab: Tab, url: str) -> dict[str, Any]:
        return {"page_reward": self._ended} if self.over(tab) else {}


class Application(Site):
    """A bundled application, rendered here without scripts; `data` is its initial state."""

    def __init__(self, name: str, data: dict[str, Any]) -> None:
        super().__init__(f"{name}.test")
        self._app = APPS[name](data)

    def respond(self, request: PageRequest) -> PageResponse:
        answer = self._app.respond(request)
        if answer.startswith("/"):
            return PageResponse("", status=303, location=f"http://{self.hosts[0]}{answer}")
        return PageResponse(answer, policy=SAFE)

    def state(self) -> Any:
        with self.lock:
            return self._app.state

    def over(self, tab: Tab) -> bool:
        steps = self.steps()
        return steps is not None and steps[0] == steps[2]

    def steps(self) -> tuple[int, int, int] | None:
        with self.lock:
            return self._app.steps()

    def outcome(self, tab: Tab, url: str) -> dict[str, Any]:
        with self.lock:
            return {"effects": self._app.effects()}


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def archive_of(path: str) -> zipfile.ZipFile:
    """Open an archive of pages in the sandbox."""
    with open(path, "rb") as file:
        return zipfile.ZipFile(io.BytesIO(file.read()))


_BEGIN_MINIWOB = """(async () => {
  Math.seedrandom(%s);
  core.EPISODE_MAX_TIME = %d;
  if (window.pageClock) pageClock.stop();
  core.startEpisodeReal();
  for (let n = 0; n < 100 && !WOB_TASK_READY; n++) await new Promise(done => setTimeout(done, 20));
  for (const id of ['reward-display', 'click-canvas', 'sync-task-cover'])
    if (document.getElementById(id)) document.getElementById(id).style.display = 'none';
  const style = document.createElement('style');
  style.textContent = '#reward-display, #click-canvas, #sync-task-cover { display: none !important }';
  document.head.append(style);
  const asked = core.getUtterance();
  return typeof asked === 'string' ? asked : asked.utterance;
})()"""
