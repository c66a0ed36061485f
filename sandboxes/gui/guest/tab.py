"""One page of an episode: what happens on it, what it shows, and what the agent does to it."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterable
from typing import Any

from . import keys, scripts, tree
from .cdp import Browser, Crashed, Late, Posted, Refused

STEP_S, LOAD_S = 8.0, 60.0
_MAX_TYPED, _MAX_DIGITS = 2_000, 9
_LOOK_AGAIN_S, _LEAVE_S, _FRAME_S = 0.02, 10.0, 1 / 60


class NotPossible(Exception):
    """What the agent asked for cannot be done on this page; the text says why."""


class Tab:
    """A page and its numbers: an element keeps its number for as long as the page is not left."""

    lines: list[tuple[int, int, str, str]]  # number, depth, role, text
    said: list[str]
    _numbers: dict[int, int]
    _nodes: dict[int, int]
    _named: dict[str, list[tuple[int, str]]]
    _world: int | None

    def __init__(self, browser: Browser, target: str, session: str, viewport: tuple[int, int]) -> None:
        self.browser, self.target, self.session = browser, target, session
        self.viewport = viewport
        self.crashed, self.said, self.lines, self.title = False, [], [], ""
        self._leaving, self._moved = False, threading.Condition()
        self._main = target  # the id of a page's main frame is that of its target
        self._numbers, self._nodes, self._named, self._renumber, self._world = {}, {}, {}, False, None
        browser.listen(session, self._happened)
        width, height = viewport
        posted = [
            self.post("Page.enable"),
            self.post("Inspector.enable"),
            self.post("Runtime.runIfWaitingForDebugger"),
            self.post(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
            ),
            self.post("Emulation.setFocusEmulationEnabled", {"enabled": True}),
        ]
        for each in posted:
            browser.result(each, LOAD_S)

    # ---- the browser -----------------------------------------------------------------------------------------------

    def post(self, method: str, params: dict[str, Any] | None = None) -> Posted:
        return self.browser.post(method, params, self.session)

    def call(self, method: str, params: dict[str, Any] | None = None, timeout_s: float = STEP_S) -> Any:
        if self.crashed:
            raise Crashed("the page has crashed")
        return self.browser.call(method, params, self.session, timeout_s)

    def evaluate(self, expression: str, timeout_s: float = STEP_S, world: int | None = None, wait: bool = False) -> Any:
        """The value of a script: in the page's own world, or in the isolated one that `world` names."""
        params = {"expression": expression, "returnByValue": True, "awaitPromise": wait}
        if world is not None:
            params["contextId"] = world
        answer = self.call("Runtime.evaluate", params, timeout_s)
        if "exceptionDetails" in answer:
            raise Refused(str(answer["exceptionDetails"].get("exception", {}).get("description", ""))[:300])
        return answer.get("result", {}).get("value")

    def ours(self) -> int:
        """An isolated world: it sees the page's elements, and nothing of what its scripts defined."""
        if self._world is None:
            made = self.call("Page.createIsolatedWorld", {"frameId": self._main, "worldName": "agentgym"})
            self._world = made["executionContextId"]
        return self._world

    def _happened(self, method: str, params: dict[str, Any]) -> None:
        """An event, on the reading thread."""
        if method == "Page.frameRequestedNavigation" and params.get("frameId") == self._main:
            if params.get("disposition", "currentTab") == "currentTab":
                self._leaving = True
        elif method == "Page.frameNavigated" and "parentId" not in params["frame"]:
            self._renumber, self._world = True, None
            self._stay()
        elif method in ("Page.navigatedWithinDocument", "Page.frameClearedScheduledNavigation"):
            self._stay()
        elif method == "Page.javascriptDialogOpening":
            self.said.append(str(params.get("message", ""))[:500])
            self.post("Page.handleJavaScriptDialog", {"accept": True})
        elif method == "Inspector.targetCrashed":
            self.gone()

    def gone(self) -> None:
        """The page's process died: whoever waits for it waits no more."""
        self.crashed = True
        self.browser.fail(self.session)
        self._stay()

    def _stay(self) -> None:
        """The page that was to come is there, or does not come."""
        with self._moved:
            self._leaving = False
            self._moved.notify_all()

    # ---- waiting -----------------------------------------------------------------------------------------------------

    def open(self, url: str) -> None:
        """Go to a page and wait until it is there."""
        answer = self.call("Page.navigate", {"url": url}, LOAD_S)
        if answer.get("errorText"):
            raise Refused(f"{url}: {answer['errorText']}")
        self.settle(LOAD_S)

    def settle(self, step_s: float = STEP_S) -> None:
        """Wait until what the last action began has happened: handlers ran, and a page that it asked for is there.

        `step_s` bounds how long the page's scripts may run in one go.
        """
        deadline = time.monotonic() + LOAD_S
        calm = 0
        while calm < 2 and time.monotonic() < deadline:
            complete = self._breathe(step_s)
            with self._moved:
                if complete and not self._leaving:
                    calm += 1
                    continue
                calm = 0
                if not self._moved.wait(_LEAVE_S if self._leaving else _LOOK_AGAIN_S):
                    self._leaving = False  # it was no page after all: a download, or an empty answer

    def _breathe(self, step_s: float) -> bool:
        """Let the page do what waits to be done now. Returns: whether all of it is there."""
        try:
            return bool(self.evaluate(scripts.BREATHE, step_s, wait=True) == "complete")
        except Refused:
            return False  # the page was left meanwhile
        except Late:
            self.post("Runtime.terminateExecution")
            raise

    # ---- what it shows -----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Read the page anew: its lines, with the number of each element, and which elements have a name."""
        for attempt in range(3):
            try:
                nodes = self.call("Accessibility.getFullAXTree")["nodes"]
                break
            except Refused:  # between two pages
                if attempt == 2:
                    raise
                self.settle()
        if self._renumber:
            self._numbers, self._nodes, self._renumber = {}, {}, False
        lines: list[tuple[int, int, str, str]] = []
        named: dict[str, list[tuple[int, str]]] = {}
        for depth, backend, role, text, name in tree.shown(nodes):
            if backend is None:
                continue
            if backend not in self._numbers:
                self._numbers[backend] = len(self._numbers) + 1
                self._nodes[self._numbers[backend]] = backend
            lines.append((self._numbers[backend], depth, role, text))
            named.setdefault(name, []).append((self._numbers[backend], role))
        self.lines, self._named = lines, named
        root = nodes[0] if nodes else {}
        self.title = str(root.get("name", {}).get("value", ""))

    def text(self) -> Any:
        """The page's text as a reader sees it."""
        return self.evaluate("document.body ? document.body.innerText : ''", world=self.ours())

    def place(self) -> list[Any]:
        """Address and scroll position."""
        found = self.evaluate("[location.href, Math.round(scrollX), Math.round(scrollY)]", world=self.ours())
        return found or ["", 0, 0]

    def picture(self, marks: bool = False) -> Any:
        """A PNG of what is in view, base64; with `marks`, each element that can be acted on in a numbered frame."""
        if not marks:
            return self.call("Page.captureScreenshot", {"format": "png"}, LOAD_S)["data"]
        wanted = [(number, self._nodes[number]) for number, _, role, _ in self.lines if role in tree.ACTED_ON][:100]
        posted = [(n, self.post("DOM.getContentQuads", {"backendNodeId": backend})) for n, backend in wanted]
        boxes = []
        for number, each in posted:
            try:
                quads = self.browser.result(each, STEP_S)["quads"]
            except Refused:
                continue
            boxes += [[number, min(q[::2]), min(q[1::2]), max(q[::2]), max(q[1::2])] for q in quads[:1]]
        self.evaluate(scripts.MARK % json.dumps(boxes), world=self.ours())
        try:
            return self.call("Page.captureScreenshot", {"format": "png"}, LOAD_S)["data"]
        finally:
            self.evaluate(scripts.UNMARK, world=self.ours())

    # ---- what the agent does -----------------------------------------------------------------------------------------

    def click(self, element: int | str) -> None:
        self.click_at(*self._middle(element))

    def click_at(self, x: float, y: float, count: int = 1) -> None:
        self._inside(x, y)
        self._point_at(x, y)
        self._mouse("mousePressed", x, y, button="left", buttons=1, clickCount=count)
        self._wait(self._mouse("mouseReleased", x, y, button="left", clickCount=count))

    def hover(self, element: int | str) -> None:
        x, y = self._middle(element)
        self._wait(self._mouse("mouseMoved", x, y))

    def drag(self, start: int | str, end: int | str) -> None:
        begin = self._middle(start)
        self.drag_at(*begin, *self._middle(end, scroll=False))

    def drag_at(self, x: float, y: float, to_x: float, to_y: float, steps: int = 6) -> None:
        """Each step waits for the page to have seen the one before, and a frame: a hand takes its time, and pages that
        look at the pointer by a clock, or wherever it passes, would otherwise see it arrive and no more.
        """
        self._inside(x, y)
        self._inside(to_x, to_y)
        self._mouse("mouseMoved", x, y)
        self._mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for step in range(1, steps + 1):
            share = step / steps
            at = x + (to_x - x) * share, y + (to_y - y) * share
            self._wait(self._mouse("mouseMoved", *at, button="left", buttons=1))
            time.sleep(_FRAME_S)
        self._wait(self._mouse("mouseReleased", to_x, to_y, button="left", clickCount=1))

    def type(self, element: int | str, text: str) -> None:
        if len(text) > _MAX_TYPED:
            raise NotPossible(f"The text is {len(text)} characters long: at most {_MAX_TYPED} can be typed at once.")
        kind = self._on(element, scripts.PREPARE_TYPING, text)
        if kind == "no":
            raise NotPossible(f"[{element}] takes no text: choose a field.")
        if kind == "set":
            return
        if not text:
            self._wait(self._keys(keys.events("Backspace")))
        else:
            self._wait(self._keys(keys.typed(text)))

    def press(self, key: str) -> None:
        self._wait(self._keys(keys.events(key)))

    def select(self, element: int | str, option: str) -> None:
        answer = self._on(element, scripts.CHOOSE, option)
        if answer != "ok":
            raise NotPossible(str(answer)[:600] if answer else f"[{element}] has no options to select from.")

    def scroll(self, direction: str, element: int | str = 0) -> None:
        if element:
            self._on(element, scripts.SCROLL_IN, direction)
        else:
            self.evaluate(scripts.SCROLL % json.dumps(direction), world=self.ours())

    def back(self) -> None:
        history = self.call("Page.getNavigationHistory")
        if history["currentIndex"] < 1 or history["entries"][history["currentIndex"] - 1]["url"] == "about:blank":
            raise NotPossible("There is no page to go back to.")
        self._leaving = True
        self.call(
            "Page.navigateToHistoryEntry", {"entryId": history["entries"][history["currentIndex"] - 1]["id"]}, LOAD_S
        )

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _node(self, element: int | str) -> tuple[int, int]:
        """Number and node of an element that the agent gave by its number or its name."""
        number = self._number(element) if isinstance(element, str) else element
        if number not in self._nodes:
            raise NotPossible(f"There is no element [{number}] on this page.")
        return number, self._nodes[number]

    def _number(self, name: str) -> int:
        """The number of the one element of a name; digits are a number. What can be acted on goes before what cannot:
        the heading over a button may say the same.
        """
        name = " ".join(name.split())
        if name.isascii() and name.isdigit():
            return int(name[:_MAX_DIGITS])
        found = self._named.get(name, ()) if name else ()
        numbers = [number for number, role in found if role in tree.ACTED_ON] or [number for number, _ in found]
        if not numbers:
            raise NotPossible(f"No element is named {name[:60]!r}: give the number of one that is shown.")
        if len(numbers) > 1:
            them = ", ".join(f"[{number}]" for number in numbers[:10])
            raise NotPossible(f"{len(numbers)} elements are named {name[:60]!r}: give the number of one, {them}.")
        return numbers[0]

    def _on(self, element: int | str, function: str, *arguments: str) -> Any:
        """Call a function of ours on an element, in the isolated world."""
        number, backend = self._node(element)
        try:
            found = self.call("DOM.resolveNode", {"backendNodeId": backend, "executionContextId": self.ours()})
            answer = self.call(
                "Runtime.callFunctionOn",
                {
                    "functionDeclaration": function,
                    "objectId": found["object"]["objectId"],
                    "arguments": [{"value": argument} for argument in arguments],
                    "returnByValue": True,
                },
            )
        except Refused as error:
            raise NotPossible(f"The element [{number}] is no longer on the page.") from error
        return answer.get("result", {}).get("value")

    def _middle(self, element: int | str, scroll: bool = True) -> tuple[float, float]:
        """Where to click on an element: the middle of its first box, scrolled into view."""
        number, backend = self._node(element)
        try:
            if scroll:
                self.call("DOM.scrollIntoViewIfNeeded", {"backendNodeId": backend})
            quads = self.call("DOM.getContentQuads", {"backendNodeId": backend})["quads"]
        except Refused as error:
            hint = "choose an option with select" if self._role(number) == "option" else "it may be hidden, or gone"
            raise NotPossible(f"The element [{number}] has no place on the page: {hint}.") from error
        if not quads:
            raise NotPossible(f"The element [{number}] has no place on the page: it may be hidden.")
        return sum(quads[0][::2]) / 4, sum(quads[0][1::2]) / 4

    def _role(self, number: int) -> str:
        return next((role for one, _, role, _ in self.lines if one == number), "")

    def _inside(self, x: float, y: float) -> None:
        width, height = self.viewport
        if not (0 <= x < width and 0 <= y < height):
            raise NotPossible(f"({x:.0f}, {y:.0f}) is outside of the view, which is {width} x {height}: scroll first.")

    def _point_at(self, x: float, y: float) -> None:
        """Move the pointer, and let the page answer to that: what was below it may be away for a moment."""
        with contextlib.suppress(Refused):  # the page was left: what comes next will say so
            self.evaluate(scripts.NOTE_BELOW % (x, y), world=self.ours())
        self._wait(self._mouse("mouseMoved", x, y))
        with contextlib.suppress(Refused):
            self.evaluate(scripts.AGAIN_BELOW % (x, y), world=self.ours(), wait=True)

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> Posted:
        return self.post("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})

    def _keys(self, events: Iterable[dict[str, Any]]) -> Posted:
        return [self.post("Input.dispatchKeyEvent", event) for event in events][-1]

    def _wait(self, posted: Posted) -> None:
        try:
            self.browser.result(posted, STEP_S)
        except Late:
            self.post("Runtime.terminateExecution")
            raise
