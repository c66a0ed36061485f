"""One episode in the guest: a fresh browser context with its own pages, and the operations that the host requests."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
import traceback
from typing import Any
from urllib.parse import urljoin, urlsplit

from . import scripts
from .actions import Actions, OpenTab
from .cdp import ChromiumProcess, Crashed, DialogOpened, Late, Refused
from .clipboard import Clipboard
from .files import EpisodeFiles
from .pictures import marked_picture, picture
from .server import PageServer
from .sites import Site, SiteFailed
from .tab import LOAD_S, NotPossible, Tab

MAX_TABS, _MAX_WAIT_S, _MAX_URL, _UNSEEN_CHARS = 5, 2.0, 2_000, 1_000_000_000
_ACTIONS = {name for name in vars(Actions) if not name.startswith("_")}


class BrowserEpisode:
    """Serves one environment. Closing it removes everything it created."""

    _site: Site  # set by do_begin
    _files: EpisodeFiles  # set by do_begin
    _context: str | None
    _viewport: tuple[int, int]
    _pages: list[OpenTab]
    _opened_targets: list[str]
    _gone_targets: set[str]
    _look: dict[str, Any]  # how the agent sees: `views`, `max_chars`, and `ask`, whether dialogs wait

    def __init__(self, browser: ChromiumProcess, server: PageServer) -> None:
        self._browser, self._server = browser, server
        self._context, self._pages, self._current, self._opened_targets = None, [], 0, []
        self._gone_targets = set()
        self._lock, self._clipboard, self._last = threading.Lock(), Clipboard(), ("", "", "")

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the reply: the result as `ok` or a fault as `refused` (for the agent), `crashed`, `site` or `died`."""
        try:
            return {"ok": getattr(self, "do_" + request.pop("do"))(**request)}
        except NotPossible as error:
            return {"refused": str(error)}
        except Late:
            return {"refused": "The page did not answer: it is busy, and what it was doing was stopped."}
        except Crashed as error:
            return {"crashed": str(error)}
        except SiteFailed as error:
            return {"site": str(error)}
        except Refused as error:
            return {"died": f"the browser refused a command: {error}"}
        except Exception as error:  # noqa: BLE001  a mistake in this guest is told to the host
            return {"died": f"{type(error).__name__}: {error} {traceback.format_exc()[-400:]}"}

    def pause(self, request: dict[str, Any]) -> None:
        """Sleep if the action is `wait`. This is separate from `answer` because it needs no processor."""
        time.sleep(_waited_s(request.get("action", ""), request.get("arguments", [])))

    # ---- operations ------------------------------------------------------------------------------------------------

    def do_begin(
        self, site: Site, viewport: list[int], look: dict[str, Any], files: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Open a site in a fresh context.

        Args:
            look: `views` and `max_chars` of observations, and `ask`, whether dialogs wait for an answer.
            files: what the agent may upload, in base64 by name.
        Returns: the observation, and the task's text from the site, if any.
        """
        self.close()
        self._site, self._look, self._clipboard = site, look, Clipboard()
        site.open()
        address = self._server.open(site)
        context = self._browser.call(
            "Target.createBrowserContext",
            {"proxyServer": f"http://{address}", "proxyBypassList": "<-loopback>", "disposeOnDetach": False},
        )
        self._context, self._viewport = context["browserContextId"], (viewport[0], viewport[1])
        self._server.watch(context["browserContextId"], self._on_target_change)
        self._server.downloads.watchers.add(self._on_download)
        self._files = EpisodeFiles(self._browser, self._server.downloads, context["browserContextId"], files or {})
        self._new_page()
        task_text: Any = ""
        try:
            if reason := self._tab.open(site.start):
                raise SiteFailed(f"its first page {site.start} cannot be reached: {reason}")
            task_text = site.begin(self._tab)
            self._tab.settle(LOAD_S)
        except DialogOpened:
            pass  # the observation shows the dialog
        return {"words": task_text, **self._observe()}

    def do_act(self, action: str, arguments: list[Any]) -> dict[str, Any]:
        """Perform one action of the agent. Returns: the observation after it."""
        page = self._page
        page.tab.dialogs.clear()
        if page.tab.asking is not None and action != "dialog":
            raise NotPossible("The page waits for an answer to its dialog: give it with dialog.")
        try:
            self._perform(page, action, arguments)
            self._site.acted(self._tab, _waited_s(action, arguments))
            self._tab.settle()
        except DialogOpened:
            pass  # a dialog opened meanwhile
        except Crashed:
            if page.tab.target not in self._gone():
                raise
        self._follow_tabs()
        return self._observe()

    def do_recover(self) -> dict[str, Any]:
        """Open the crashed page's address in a new tab; if that crashes too, open an empty tab.

        Returns: the observation.
        """
        for url in (self._last[0], "about:blank"):
            self._forget(self._page)
            self._new_page()
            with contextlib.suppress(Crashed, Late, Refused, DialogOpened, NotPossible):
                self._tab.open(url)
            if not self._tab.crashed:
                break
        return self._observe()

    def do_outcome(self) -> dict[str, Any]:
        """Return the end state: that of the site, and the downloaded files.

        If the site's hook or script for its state fails, `failed` says how.
        """
        tab = self._tab
        while tab.asking is not None:
            with contextlib.suppress(NotPossible, DialogOpened):
                tab.answer_dialog(False, "")
        self._files.news()
        try:
            outcome = self._site.outcome(tab, self._last[0])
        except (SiteFailed, Refused, Late, DialogOpened) as error:  # the agent's doing: the page worked at first
            outcome = {"url": self._last[0], "failed": str(error)}
        if downloads := self._files.downloaded():
            outcome["downloads"] = downloads
        return outcome

    def do_boxes(self) -> list[Any]:
        """Return number, role, line and box in pixels of every element. For grounding tasks and scripted players."""
        boxes = []
        tab, elements = self._tab, self._page.elements
        elements.look(self._look["max_chars"])
        for number, _, role, text in elements.lines:
            try:
                quads = tab.call("DOM.getContentQuads", {"backendNodeId": elements.node(number)[1]})["quads"]
            except Refused:
                continue
            if quads:
                xs, ys = quads[0][::2], quads[0][1::2]
                boxes.append([number, role, text, [min(xs), min(ys), max(xs), max(ys)]])
        return boxes

    def do_evaluate(self, script: str) -> Any:
        """Run a script in the page. For scripted players and tests, never for agents."""
        try:
            return self._tab.evaluate(script, wait=True)
        except Refused as error:
            raise NotPossible(f"the script failed: {error}") from error

    def do_crash(self) -> None:
        """Kill the process of the page. For tests."""
        self._tab.post("Page.crash")
        time.sleep(0.2)
        self._tab.evaluate("1")

    # ---- actions on the browser -------------------------------------------------------------------------------------

    def _perform(self, page: OpenTab, action: str, arguments: list[Any]) -> None:
        if action in _ACTIONS:
            getattr(page.actions, action)(*arguments)
        elif action == "tab":
            self._change_tab(*arguments)
        elif action == "goto":
            self._go_to(*arguments)
        elif action == "dialog":
            page.tab.answer_dialog(*arguments)
        elif action == "upload":
            self._upload(page, *arguments)
        elif action != "wait":  # `pause` has slept already
            raise NotPossible(f"There is no action {action!r}.")

    def _go_to(self, address: str) -> None:
        here = self._last[0] if self._is_of_site(self._last[0]) else self._site.start
        url = urljoin(here, address.strip())
        if len(url) > _MAX_URL or not self._is_of_site(url):
            reachable = ", ".join(f"http://{host}/" for host in self._site.hosts)
            raise NotPossible(f"{address[:80]!r} cannot be reached: only pages of {reachable} can.")
        self._tab.open(url)

    def _is_of_site(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
            return parts.scheme == "http" and parts.hostname in self._site.hosts
        except ValueError:
            return False

    def _upload(self, page: OpenTab, target: int | str, names: list[str]) -> None:
        paths = self._files.paths(names)
        _, backend = page.elements.node(target)
        if not page.elements.on(target, scripts.TAKES_FILES):
            page.tab.chooser = None
            page.actions.click(target)
            page.tab.settle()
            if page.tab.chooser is None:
                raise NotPossible(f"[{target}] takes no file: give a file field, or what opens the choice of a file.")
            backend = page.tab.chooser
        try:
            page.tab.call("DOM.setFileInputFiles", {"files": paths, "backendNodeId": backend})
        except Refused as error:
            raise NotPossible(f"The file field does not take {', '.join(names)[:200]}: {error}") from error

    def _change_tab(self, do: str, number: int = 0) -> None:
        if do == "open":
            if len(self._pages) >= MAX_TABS:
                raise NotPossible(f"There are {len(self._pages)} tabs already, the most possible: close one.")
            self._new_page()
            self._tab.open(self._site.start)
            return
        number = number or self._current + 1
        if not 1 <= number <= len(self._pages):
            raise NotPossible(f"There is no tab {number}: there are {len(self._pages)}.")
        if do == "close":
            if len(self._pages) == 1:
                raise NotPossible("The only tab cannot be closed.")
            self._forget(self._pages[number - 1])
        else:
            self._current = number - 1
        self._activate()

    # ---- inside ------------------------------------------------------------------------------------------------------

    @property
    def _page(self) -> OpenTab:
        return self._pages[self._current]

    @property
    def _tab(self) -> Tab:
        return self._page.tab

    def _new_page(self) -> None:
        target = self._browser.call(
            "Target.createTarget", {"url": "about:blank", "browserContextId": self._context}, timeout_s=LOAD_S
        )["targetId"]
        self._attach(target)
        self._current = len(self._pages) - 1

    def _attach(self, target: str) -> None:
        if any(page.tab.target == target for page in self._pages):
            return
        attached = self._browser.call("Target.attachToTarget", {"targetId": target, "flatten": True}, timeout_s=LOAD_S)
        tab = Tab(
            self._browser, target, attached["sessionId"], self._viewport, self._clipboard, bool(self._look.get("ask"))
        )
        self._pages.append(OpenTab(tab))

    def _forget(self, page: OpenTab) -> None:
        """Close a page and remove it from the tabs. If it was current, the tab before it becomes current."""
        index = self._pages.index(page)
        self._pages.remove(page)
        if 0 < self._current >= index:
            self._current -= 1
        self._browser.forget(page.tab.session)
        self._browser.fail(page.tab.session)
        self._browser.post("Target.closeTarget", {"targetId": page.tab.target})

    def _activate(self) -> None:
        self._browser.call("Target.activateTarget", {"targetId": self._tab.target})

    def _on_target_change(self, target: str, gone: bool) -> None:
        """Record that a page was opened or closed. Runs on the reading thread."""
        with self._lock:
            if not gone:
                self._opened_targets.append(target)
                return
            if target in self._opened_targets:
                self._opened_targets.remove(target)
            self._gone_targets.add(target)
        for page in list(self._pages):
            if page.tab.target == target:
                page.tab.mark_crashed()

    def _on_download(self, frame: str) -> None:
        """Record that a frame's request is a download, so no page will come. Runs on the reading thread."""
        for page in list(self._pages):
            page.tab.end_navigation(frame)

    def _gone(self) -> set[str]:
        """Return the targets that have been closed, for example by a page's script."""
        with self._lock:
            return set(self._gone_targets)

    def _follow_tabs(self) -> None:
        """Update the tabs: remove closed ones, add opened ones, and make the newest current.

        Tabs beyond `MAX_TABS` are closed.
        """
        gone = self._gone()
        for page in [page for page in self._pages if page.tab.target in gone]:
            self._forget(page)
        if not self._pages:
            self._new_page()
        with self._lock:
            targets, self._opened_targets = self._opened_targets, []
        for target in targets:
            if any(page.tab.target == target for page in self._pages):
                continue
            if len(self._pages) >= MAX_TABS:
                self._browser.post("Target.closeTarget", {"targetId": target})
                continue
            try:
                self._attach(target)
            except Refused:
                continue  # the tab has been closed
            self._current = len(self._pages) - 1
            with contextlib.suppress(DialogOpened):
                self._tab.settle()

    def _observe(self) -> dict[str, Any]:
        page, tab, views = self._page, self._tab, self._look["views"]
        observed = {
            "tabs": [len(self._pages), self._current + 1],
            "dialogs": list(tab.dialogs),
            "chooser": tab.chooser is not None,
            "steps": self._site.steps(),
        }
        tab.chooser = None
        try:
            if tab.asking is not None:
                raise DialogOpened
            max_chars = self._look["max_chars"] if {"tree", "text"} & set(views) else _UNSEEN_CHARS
            page.elements.look(max_chars, "text" in views)
            location = tab.location()
            seen = self._seen(page, views)
            over = self._site.over(tab)
        except DialogOpened:  # a dialog halts the page, so only the dialog is visible
            url, title, key = self._last
            asking = dict(tab.asking or {})
            key = hashlib.sha256(json.dumps([key, asking]).encode()).hexdigest()[:32]
            observed |= {"url": url, "title": title, "key": key, "over": False, "asking": asking}
            return {**observed, "downloads": []}
        lines, title = page.elements.lines, page.elements.title
        state = json.dumps([*location, lines, len(self._pages), self._current, self._site.state()], sort_keys=True)
        self._last = (str(location[0]), title, hashlib.sha256(state.encode()).hexdigest()[:32])
        observed |= {"url": location[0], "title": title, "key": self._last[2], "over": over}
        if str(location[0]).startswith("chrome-error:"):
            observed["unreachable"] = tab.unreachable()
        # read last, because downloads begin a little later
        return {**observed, **seen, "downloads": self._files.news()}

    def _seen(self, page: OpenTab, views: list[str]) -> dict[str, Any]:
        """Return a page as the agent sees it."""
        elements, seen = page.elements, dict[str, Any]()
        if "tree" in views:
            seen["lines"] = [[number, depth, text] for number, depth, _, text in elements.lines]
            seen["cut"] = [elements.before, elements.after]
        if elements.is_long:
            seen["extent"] = page.tab.evaluate(scripts.EXTENT, context=page.tab.isolated_context())
        if "text" in views:
            seen["text"] = elements.text()
        if "screenshot" in views:
            seen["screenshot"] = picture(page.tab)
        if "marks" in views:
            seen["marks"] = marked_picture(page.tab, elements)
        return seen

    def close(self) -> None:
        """Dispose of the browser context and everything in it."""
        context, self._context = self._context, None
        if context is None:
            return
        self._server.unwatch(context)
        self._server.close(self._site)
        self._site.close()
        self._server.downloads.watchers.discard(self._on_download)
        self._files.close()
        for page in self._pages:
            self._browser.forget(page.tab.session)
            self._browser.fail(page.tab.session)
        self._pages, self._current, self._opened_targets, self._gone_targets = [], 0, [], set()
        with contextlib.suppress(Refused, Late):  # the context has already ended
            self._browser.call("Target.disposeBrowserContext", {"browserContextId": context}, timeout_s=LOAD_S)


def _waited_s(action: str, arguments: list[Any]) -> float:
    """Return how long an action waits, in seconds."""
    return min(max(float(arguments[0]), 0.0), _MAX_WAIT_S) if action == "wait" else 0.0
