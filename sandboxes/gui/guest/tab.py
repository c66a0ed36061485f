"""One browser tab of an episode: its events, what it shows, and the actions on it."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterable
from typing import Any

from . import keys, scripts, tree
from .cdp import ChromiumProcess, Crashed, Late, Posted, Refused

STEP_S, LOAD_S = 8.0, 60.0
_MAX_TYPED, _MAX_DIGITS = 2_000, 9
_POLL_S, _NAVIGATION_S, _FRAME_S = 0.02, 10.0, 1 / 60


class NotPossible(Exception):
    """An action is not possible on this page; the message tells the agent why."""


class Tab:
    """A page and the numbers of its elements. An element keeps its number until the page is left."""

    lines: list[tuple[int, int, str, str]]  # number, depth, role, text
    dialogs: list[str]
    _numbers: dict[int, int]
    _nodes: dict[int, int]
    _named: dict[str, list[tuple[int, str]]]
    _isolated_context: int | None

    def __init__(self, browser: ChromiumProcess, target: str, session: str, viewport: tuple[int, int]) -> None:
        self.browser, self.target, self.session = browser, target, session
        self.viewport = viewport
        self.crashed, self.dialogs, self.lines, self.title = False, [], [], ""
        self._navigating, self._navigation = False, threading.Condition()
        self._main = target  # the id of a page's main frame is that of its target
        self._numbers, self._nodes, self._named, self._renumber, self._isolated_context = {}, {}, {}, False, None
        browser.listen(session, self._on_event)
        width, height = viewport
        commands = [
            self.post("Page.enable"),
            self.post("Inspector.enable"),
            self.post("Runtime.runIfWaitingForDebugger"),
            self.post(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
            ),
            self.post("Emulation.setFocusEmulationEnabled", {"enabled": True}),
        ]
        for command in commands:
            browser.result(command, LOAD_S)

    # ---- the browser -----------------------------------------------------------------------------------------------

    def post(self, method: str, params: dict[str, Any] | None = None) -> Posted:
        return self.browser.post(method, params, self.session)

    def call(self, method: str, params: dict[str, Any] | None = None, timeout_s: float = STEP_S) -> Any:
        if self.crashed:
            raise Crashed("the page has crashed")
        return self.browser.call(method, params, self.session, timeout_s)

    def evaluate(
        self, expression: str, timeout_s: float = STEP_S, context: int | None = None, wait: bool = False
    ) -> Any:
        """The value of a script, run in the page or in the isolated execution context `context`."""
        params = {"expression": expression, "returnByValue": True, "awaitPromise": wait}
        if context is not None:
            params["contextId"] = context
        answer = self.call("Runtime.evaluate", params, timeout_s)
        if "exceptionDetails" in answer:
            raise Refused(str(answer["exceptionDetails"].get("exception", {}).get("description", ""))[:300])
        return answer.get("result", {}).get("value")

    def isolated_context(self) -> int:
        """An isolated execution context: it sees the page's elements, but nothing that its scripts defined."""
        if self._isolated_context is None:
            isolated = self.call("Page.createIsolatedWorld", {"frameId": self._main, "worldName": "agentgym"})
            self._isolated_context = isolated["executionContextId"]
        return self._isolated_context

    def _on_event(self, method: str, params: dict[str, Any]) -> None:
        """Handle an event. Called on the reading thread."""
        if method == "Page.frameRequestedNavigation" and params.get("frameId") == self._main:
            if params.get("disposition", "currentTab") == "currentTab":
                self._navigating = True
        elif method == "Page.frameNavigated" and "parentId" not in params["frame"]:
            self._renumber, self._isolated_context = True, None
            self._end_navigation()
        elif method in ("Page.navigatedWithinDocument", "Page.frameClearedScheduledNavigation"):
            self._end_navigation()
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(str(params.get("message", ""))[:500])
            self.post("Page.handleJavaScriptDialog", {"accept": True})
        elif method == "Inspector.targetCrashed":
            self.mark_crashed()

    def mark_crashed(self) -> None:
        """The process of the page died: fail every command that waits for it."""
        self.crashed = True
        self.browser.fail(self.session)
        self._end_navigation()

    def _end_navigation(self) -> None:
        """The navigation has finished or was abandoned."""
        with self._navigation:
            self._navigating = False
            self._navigation.notify_all()

    # ---- waiting -----------------------------------------------------------------------------------------------------

    def open(self, url: str) -> None:
        """Go to a page and wait until it has loaded."""
        answer = self.call("Page.navigate", {"url": url}, LOAD_S)
        if answer.get("errorText"):
            raise Refused(f"{url}: {answer['errorText']}")
        self.settle(LOAD_S)

    def settle(self, step_s: float = STEP_S) -> None:
        """Wait until the effects of the last action are complete: handlers have run, a requested page has loaded.

        `step_s` bounds how long the page's scripts may run at a stretch.
        """
        deadline = time.monotonic() + LOAD_S
        quiet_checks = 0
        while quiet_checks < 2 and time.monotonic() < deadline:
            complete = self._run_pending_tasks(step_s)
            with self._navigation:
                if complete and not self._navigating:
                    quiet_checks += 1
                    continue
                quiet_checks = 0
                if not self._navigation.wait(_NAVIGATION_S if self._navigating else _POLL_S):
                    self._navigating = False  # not a page: a download, or an empty response

    def _run_pending_tasks(self, step_s: float) -> bool:
        """Let the page run its pending tasks. Returns: whether the document has loaded."""
        try:
            return bool(self.evaluate(scripts.BREATHE, step_s, wait=True) == "complete")
        except Refused:
            return False  # the page has been left
        except Late:
            self.post("Runtime.terminateExecution")
            raise

    # ---- what it shows -----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Read the page: its lines, the number of each element, and which elements have a name."""
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
        for depth, backend, role, text, name in tree.visible_lines(nodes):
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
        """The visible text of the page."""
        return self.evaluate("document.body ? document.body.innerText : ''", context=self.isolated_context())

    def location(self) -> list[Any]:
        """Address and scroll position."""
        location = self.evaluate(
            "[location.href, Math.round(scrollX), Math.round(scrollY)]", context=self.isolated_context()
        )
        return location or ["", 0, 0]

    def picture(self, marks: bool = False) -> Any:
        """A PNG of the viewport in base64; with `marks`, a numbered frame is drawn around each interactive element."""
        if not marks:
            return self.call("Page.captureScreenshot", {"format": "png"}, LOAD_S)["data"]
        marked = [(number, self._nodes[number]) for number, _, role, _ in self.lines if role in tree.ACTED_ON][:100]
        posted = [(number, self.post("DOM.getContentQuads", {"backendNodeId": backend})) for number, backend in marked]
        boxes = []
        for number, command in posted:
            try:
                quads = self.browser.result(command, STEP_S)["quads"]
            except Refused:
                continue
            boxes += [[number, min(q[::2]), min(q[1::2]), max(q[::2]), max(q[1::2])] for q in quads[:1]]
        self.evaluate(scripts.MARK % json.dumps(boxes), context=self.isolated_context())
        try:
            return self.call("Page.captureScreenshot", {"format": "png"}, LOAD_S)["data"]
        finally:
            self.evaluate(scripts.UNMARK, context=self.isolated_context())

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
        """Drag in steps. Each step waits until the page has handled the one before, and for one frame: pages that poll
        the pointer, or follow its path, would otherwise see only where it arrives.
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

    def fill(self, value: str) -> None:
        """Fill in the page's first field as its kind requires, and send its form."""
        fields = {role: number for number, _, role, _ in reversed(self.lines)}
        if "textbox" in fields:
            self.type(fields["textbox"], value)
        elif "combobox" in fields:
            self.select(fields["combobox"], value)
            return self.click(fields.get("button", "Next"))
        elif radios := [number for number, role in self._named.get(value, ()) if role == "radio"]:
            self.click(radios[0])
        else:
            raise NotPossible(f"The page has no field that could hold {value[:60]!r}.")
        return self.press("Enter")

    def scroll(self, direction: str, element: int | str = 0) -> None:
        if element:
            self._on(element, scripts.SCROLL_IN, direction)
        else:
            self.evaluate(scripts.SCROLL % json.dumps(direction), context=self.isolated_context())

    def back(self) -> None:
        history = self.call("Page.getNavigationHistory")
        if history["currentIndex"] < 1 or history["entries"][history["currentIndex"] - 1]["url"] == "about:blank":
            raise NotPossible("There is no page to go back to.")
        self._navigating = True
        self.call(
            "Page.navigateToHistoryEntry", {"entryId": history["entries"][history["currentIndex"] - 1]["id"]}, LOAD_S
        )

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _node(self, element: int | str) -> tuple[int, int]:
        """Number and backend node id of an element, given by its number or its name."""
        number = self._number(element) if isinstance(element, str) else element
        if number not in self._nodes:
            raise NotPossible(f"There is no element [{number}] on this page.")
        return number, self._nodes[number]

    def _number(self, name: str) -> int:
        """The number of the element with a name; digits are taken as a number.

        Interactive elements come first, because the heading above a button may have the same name.
        """
        name = " ".join(name.split())
        if name.isascii() and name.isdigit():
            return int(name[:_MAX_DIGITS])
        candidates = self._named.get(name, ()) if name else ()
        numbers = [number for number, role in candidates if role in tree.ACTED_ON] or [
            number for number, _ in candidates
        ]
        if not numbers:
            raise NotPossible(f"No element is named {name[:60]!r}: give the number of one that is shown.")
        if len(numbers) > 1:
            choices = ", ".join(f"[{number}]" for number in numbers[:10])
            raise NotPossible(f"{len(numbers)} elements are named {name[:60]!r}: give the number of one, {choices}.")
        return numbers[0]

    def _on(self, element: int | str, function: str, *arguments: str) -> Any:
        """Call one of our functions on an element, in the isolated execution context."""
        number, backend = self._node(element)
        try:
            resolved = self.call(
                "DOM.resolveNode", {"backendNodeId": backend, "executionContextId": self.isolated_context()}
            )
            answer = self.call(
                "Runtime.callFunctionOn",
                {
                    "functionDeclaration": function,
                    "objectId": resolved["object"]["objectId"],
                    "arguments": [{"value": argument} for argument in arguments],
                    "returnByValue": True,
                },
            )
        except Refused as error:
            raise NotPossible(f"The element [{number}] is no longer on the page.") from error
        return answer.get("result", {}).get("value")

    def _middle(self, element: int | str, scroll: bool = True) -> tuple[float, float]:
        """Scroll an element into view. Returns: the middle of its first box, where to click it."""
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
        return next((role for element, _, role, _ in self.lines if element == number), "")

    def _inside(self, x: float, y: float) -> None:
        width, height = self.viewport
        if not (0 <= x < width and 0 <= y < height):
            raise NotPossible(f"({x:.0f}, {y:.0f}) is outside of the view, which is {width} x {height}: scroll first.")

    def _point_at(self, x: float, y: float) -> None:
        """Move the pointer and let the page react: it may replace the element under the pointer for a moment."""
        with contextlib.suppress(Refused):  # the page has been left; the next command reports it
            self.evaluate(scripts.NOTE_BELOW % (x, y), context=self.isolated_context())
        self._wait(self._mouse("mouseMoved", x, y))
        with contextlib.suppress(Refused):
            self.evaluate(scripts.AGAIN_BELOW % (x, y), context=self.isolated_context(), wait=True)

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
