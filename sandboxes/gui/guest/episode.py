"""One episode in the guest: a fresh browser context with its own pages, and the operations that the host requests."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from typing import Any

from .cdp import ChromiumProcess, Crashed, Late, Refused
from .server import PageServer
from .sites import Site
from .tab import LOAD_S, NotPossible, Tab

MAX_TABS, _MAX_WAIT_S = 5, 2.0
_ACTIONS = ("click", "click_at", "type", "press", "select", "scroll", "drag", "drag_at", "hover", "back", "fill")


class BrowserEpisode:
    """Serves one environment. Closing it removes everything it created."""

    _site: Site  # set by do_begin
    _context: str | None
    _viewport: tuple[int, int]
    _tabs: list[Tab]
    _opened_targets: list[str]

    def __init__(self, browser: ChromiumProcess, server: PageServer) -> None:
        self._browser, self._server = browser, server
        self._context, self._tabs, self._current, self._opened_targets = None, [], 0, []
        self._lock = threading.Lock()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request: `ok`; `refused`, a message for the agent; or `died`, a failure for the host."""
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
        """Sleep if the action is `wait`. Separate from `answer`, because it needs no processor."""
        if request.get("action") == "wait":
            time.sleep(min(max(float(request["arguments"][0]), 0.0), _MAX_WAIT_S))

    # ---- operations ------------------------------------------------------------------------------------------------

    def do_begin(self, site: Site, viewport: list[int], observe: list[str]) -> dict[str, Any]:
        """Open a site in a fresh context. Returns: the observation, and the site's own text of the task, if any."""
        self.close()
        self._site = site
        address = self._server.open(site)
        context = self._browser.call(
            "Target.createBrowserContext",
            {"proxyServer": f"http://{address}", "proxyBypassList": "<-loopback>", "disposeOnDetach": False},
        )
        self._context, self._viewport = context["browserContextId"], (viewport[0], viewport[1])
        self._server.watch(context["browserContextId"], self._on_target_change)
        self._new_tab("about:blank")
        self._tab.open(site.start)
        task_text = site.begin(self._tab)
        self._tab.settle(LOAD_S)
        return {"words": task_text, **self._observe(observe)}

    def do_act(self, action: str, arguments: list[Any], observe: list[str]) -> dict[str, Any]:
        """Perform one action of the agent. Returns: the observation after it."""
        if action == "tab":
            self._switch(*arguments)
        elif action == "wait":
            pass  # `pause` has slept
        elif action in _ACTIONS:
            self._tab.dialogs.clear()
            getattr(self._tab, action)(*arguments)
        else:
            raise NotPossible(f"There is no action {action!r}.")
        self._tab.settle()
        self._attach_opened_tabs()
        return self._observe(observe)

    def do_outcome(self) -> dict[str, Any]:
        """The end state, from the server or the page."""
        return self._site.outcome(self._tab)

    def do_boxes(self) -> list[Any]:
        """Number, role, line and box in pixels of every element. For grounding tasks and scripted players."""
        boxes = []
        self._tab.look()
        for number, _, role, text in self._tab.lines:
            try:
                _, backend = self._tab._node(number)
                quads = self._tab.call("DOM.getContentQuads", {"backendNodeId": backend})["quads"]
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

    # ---- inside ------------------------------------------------------------------------------------------------------

    @property
    def _tab(self) -> Tab:
        return self._tabs[self._current]

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

    def _on_target_change(self, target: str, gone: bool) -> None:
        """A page was opened or closed. Called on the reading thread."""
        with self._lock:
            if not gone:
                self._opened_targets.append(target)
            elif target in self._opened_targets:
                self._opened_targets.remove(target)

    def _attach_opened_tabs(self) -> None:
        """Attach the tabs that pages have opened; the newest becomes current. Those beyond `MAX_TABS` are closed."""
        with self._lock:
            targets, self._opened_targets = self._opened_targets, []
        for target in targets:
            if any(tab.target == target for tab in self._tabs):
                continue
            if len(self._tabs) >= MAX_TABS:
                self._browser.post("Target.closeTarget", {"targetId": target})
                continue
            try:
                self._attach(target)
            except Refused:
                continue  # the tab has been closed
            self._current = len(self._tabs) - 1
            self._tab.settle()

    def _switch(self, number: int) -> None:
        if not 1 <= number <= len(self._tabs):
            raise NotPossible(f"There is no tab {number}: there are {len(self._tabs)}.")
        self._current = number - 1
        self._browser.call("Target.activateTarget", {"targetId": self._tab.target})

    def _observe(self, observe: list[str]) -> dict[str, Any]:
        tab = self._tab
        tab.look()
        url, x, y = tab.location()
        state = json.dumps([url, x, y, tab.lines, len(self._tabs), self._current, self._site.state()], sort_keys=True)
        observed = {
            "url": url,
            "title": tab.title,
            "tabs": [len(self._tabs), self._current + 1],
            "dialogs": list(tab.dialogs),
            "key": hashlib.sha256(state.encode()).hexdigest()[:32],
            "over": self._site.over(tab),
            "steps": self._site.steps(),
        }
        if "tree" in observe:
            observed["lines"] = [[number, depth, text] for number, depth, _, text in tab.lines]
        if "text" in observe:
            observed["text"] = tab.text()
        if "screenshot" in observe:
            observed["screenshot"] = tab.picture()
        if "marks" in observe:
            observed["marks"] = tab.picture(marks=True)
        return observed

    def close(self) -> None:
        """Dispose of the browser context and everything in it."""
        context, self._context = self._context, None
        if context is None:
            return
        self._server.unwatch(context)
        self._server.close(self._site)
        for tab in self._tabs:
            self._browser.forget(tab.session)
            self._browser.fail(tab.session)
        self._tabs, self._current, self._opened_targets = [], 0, []
        with contextlib.suppress(Refused, Late):  # the context is gone already
            self._browser.call("Target.disposeBrowserContext", {"browserContextId": context}, timeout_s=LOAD_S)
