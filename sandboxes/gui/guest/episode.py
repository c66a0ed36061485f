"""One episode: a fresh browser context with its own pages, and the operations that the host asks for."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from typing import Any

from .cdp import Browser, Crashed, Late, Refused
from .server import PageServer
from .sites import Site
from .tab import LOAD_S, NotPossible, Tab

MAX_TABS, _MAX_WAIT_S = 5, 2.0
_ACTIONS = ("click", "click_at", "type", "press", "select", "scroll", "drag", "drag_at", "hover", "back")


class Episode:
    """Speaks with one environment. Everything it made goes when it is closed."""

    _site: Site  # from when it begins
    _context: str | None
    _tabs: list[Tab]
    _found: list[str]

    def __init__(self, browser: Browser, server: PageServer) -> None:
        self._browser, self._server = browser, server
        self._context, self._tabs, self._at, self._found = None, [], 0, []
        self._lock = threading.Lock()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request: `ok`, `refused` for the agent, or `died` for the host."""
        try:
            return {"ok": getattr(self, "do_" + request.pop("do"))(**request)}
        except NotPossible as error:
            return {"refused": str(error)}
        except Late:
            return {"refused": "The page did not answer: it is busy, and what it was doing was stopped."}
        except Crashed as error:
            return {"died": str(error)}
        except Refused as error:
            return {"died": f"the browser refused a command: {error}"}

    def pause(self, request: dict[str, Any]) -> None:
        """Wait, if that is asked for. Apart from `answer`, for it needs no processor."""
        if request.get("action") == "wait":
            time.sleep(min(max(float(request["arguments"][0]), 0.0), _MAX_WAIT_S))

    # ---- operations ------------------------------------------------------------------------------------------------

    def do_begin(self, site: Site, viewport: list[int], observe: list[str]) -> dict[str, Any]:
        """Open a site in a fresh context. Returns: what it shows, and the site's own words for the task, if any."""
        self.close()
        self._site = site
        address = self._server.open(site)
        made = self._browser.call(
            "Target.createBrowserContext",
            {"proxyServer": f"http://{address}", "proxyBypassList": "<-loopback>", "disposeOnDetach": False},
        )
        self._context, self._viewport = made["browserContextId"], (viewport[0], viewport[1])
        self._server.watch(made["browserContextId"], self._appeared)
        self._new_tab("about:blank")
        self._tab.open(site.start)
        words = site.begin(self._tab)
        self._tab.settle(LOAD_S)
        return {"words": words, **self._seen(observe)}

    def do_act(self, action: str, arguments: list[Any], observe: list[str]) -> dict[str, Any]:
        """One action of the agent, and what is shown after it."""
        if action == "tab":
            self._switch(*arguments)
        elif action == "wait":
            pass  # `pause` did
        elif action in _ACTIONS:
            self._tab.said.clear()
            getattr(self._tab, action)(*arguments)
        else:
            raise NotPossible(f"There is no action {action!r}.")
        self._tab.settle()
        self._adopt()
        return self._seen(observe)

    def do_outcome(self) -> dict[str, Any]:
        """What the episode came to, from the state of the server or of the page."""
        return self._site.outcome(self._tab)

    def do_boxes(self) -> list[Any]:
        """Where every element is: number, role, line, box in pixels. For grounding tasks and scripted players."""
        found = []
        self._tab.look()
        for number, _, role, text in self._tab.lines:
            try:
                _, backend = self._tab._node(number)
                quads = self._tab.call("DOM.getContentQuads", {"backendNodeId": backend})["quads"]
            except Refused:
                continue
            if quads:
                xs, ys = quads[0][::2], quads[0][1::2]
                found.append([number, role, text, [min(xs), min(ys), max(xs), max(ys)]])
        return found

    def do_evaluate(self, script: str) -> Any:
        """A script in the page's own world: for scripted players and tests, never for agents."""
        try:
            return self._tab.evaluate(script, wait=True)
        except Refused as error:
            raise NotPossible(f"the script failed: {error}") from error

    def do_crash(self) -> None:
        """Kill the page's process, to test what follows."""
        self._tab.post("Page.crash")
        time.sleep(0.2)
        self._tab.evaluate("1")

    # ---- inside ------------------------------------------------------------------------------------------------------

    @property
    def _tab(self) -> Tab:
        return self._tabs[self._at]

    def _new_tab(self, url: str) -> None:
        target = self._browser.call(
            "Target.createTarget", {"url": url, "browserContextId": self._context}, timeout_s=LOAD_S
        )["targetId"]
        self._attach(target)

    def _attach(self, target: str) -> None:
        if any(tab.target == target for tab in self._tabs):
            return
        attached = self._browser.call("Target.attachToTarget", {"targetId": target, "flatten": True}, timeout_s=LOAD_S)
        self._tabs.append(Tab(self._browser, target, attached["sessionId"], self._viewport))

    def _appeared(self, target: str, gone: bool) -> None:
        """On the reading thread: a page opened or closed another."""
        with self._lock:
            if not gone:
                self._found.append(target)
            elif target in self._found:
                self._found.remove(target)

    def _adopt(self) -> None:
        """Take in the pages that pages have opened: the newest comes to the front. Too many are closed."""
        with self._lock:
            found, self._found = self._found, []
        for target in found:
            if any(tab.target == target for tab in self._tabs):
                continue
            if len(self._tabs) >= MAX_TABS:
                self._browser.post("Target.closeTarget", {"targetId": target})
                continue
            try:
                self._attach(target)
            except Refused:
                continue  # it was closed again
            self._at = len(self._tabs) - 1
            self._tab.settle()

    def _switch(self, number: int) -> None:
        if not 1 <= number <= len(self._tabs):
            raise NotPossible(f"There is no tab {number}: there are {len(self._tabs)}.")
        self._at = number - 1
        self._browser.call("Target.activateTarget", {"targetId": self._tab.target})

    def _seen(self, observe: list[str]) -> dict[str, Any]:
        tab = self._tab
        tab.look()
        url, x, y = tab.place()
        state = json.dumps([url, x, y, tab.lines, len(self._tabs), self._at, self._site.state()], sort_keys=True)
        seen = {
            "url": url,
            "title": tab.title,
            "tabs": [len(self._tabs), self._at + 1],
            "dialogs": list(tab.said),
            "key": hashlib.sha256(state.encode()).hexdigest()[:32],
            "over": self._site.over(tab),
        }
        if "tree" in observe:
            seen["lines"] = [[number, depth, text] for number, depth, _, text in tab.lines]
        if "text" in observe:
            seen["text"] = tab.text()
        if "screenshot" in observe:
            seen["screenshot"] = tab.picture()
        if "marks" in observe:
            seen["marks"] = tab.picture(marks=True)
        return seen

    def close(self) -> None:
        """Let go of the context and everything in it."""
        context, self._context = self._context, None
        if context is None:
            return
        self._server.unwatch(context)
        self._server.close(self._site)
        for tab in self._tabs:
            self._browser.forget(tab.session)
            self._browser.fail(tab.session)
        self._tabs, self._at, self._found = [], 0, []
        with contextlib.suppress(Refused, Late):  # it went by itself
            self._browser.call("Target.disposeBrowserContext", {"browserContextId": context}, timeout_s=LOAD_S)
