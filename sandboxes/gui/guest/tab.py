"""One browser tab of an episode: its frames, its events and dialogs, and waiting until a page is quiet."""

from __future__ import annotations

import threading
import time
from typing import Any

from . import scripts
from .cdp import ChromiumProcess, Crashed, DialogOpened, Late, Posted, Refused
from .clipboard import BINDING, CONTEXT, IN_FRAMES, IN_PAGES, Clipboard

STEP_S, LOAD_S = 8.0, 60.0
_POLL_S, _NAVIGATION_S, _MAX_FRAMES = 0.02, 10.0, 30
_REQUESTS_S, _BODY_S = 5.0, 0.5
"""How long to wait for the requests of scripts; and how long for more of an answer, which the script may not want."""
_AWAITED = ("Fetch", "XHR", "Script")  # kinds of requests by scripts whose answers the page may show


class NotPossible(Exception):
    """An action is not possible on this page; the message tells the agent why."""


class Tab:
    """A page with its frames.

    `dialogs` are the messages of the dialogs since the last action. `asking` is a dialog that waits for an answer;
    until it has one, every command raises DialogOpened. `shows` is how many documents the main frame has shown.
    """

    dialogs: list[str]
    asking: dict[str, Any] | None
    chooser: int | None  # backend node id of the input whose file chooser the page opened
    _contexts: dict[str, int]
    _navigating: set[str]  # frames that have asked for a page that has not come yet
    _loading: set[str]  # frames whose page has come or is coming but is not complete
    _requests: dict[str, tuple[str, float]]  # requests of scripts by id: the frame, and until when to wait
    _drag: dict[str, Any] | None

    def __init__(
        self,
        browser: ChromiumProcess,
        target: str,
        session: str,
        viewport: tuple[int, int],
        clipboard: Clipboard,
        ask: bool = False,
    ) -> None:
        """Prepare a page.

        Args:
            ask: whether confirmations and prompts wait for `answer_dialog`; they are accepted otherwise.
        """
        self.browser, self.target, self.session = browser, target, session
        self.viewport, self._clipboard, self._ask = viewport, clipboard, ask
        self.crashed, self.dialogs, self.asking, self.chooser, self.shows = False, [], None, None, 0
        self.main = target  # the id of a page's main frame is that of its target
        self._contexts, self._navigating, self._loading, self._requests = {}, set(), set(), {}
        self._navigation = threading.Condition()
        self._drag, self._drag_begun = None, False
        browser.listen(session, self._on_event)
        width, height = viewport
        commands = [
            self.post("Page.enable"),
            self.post("Inspector.enable"),
            self.post("Network.enable", {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0}),
            self.post("Runtime.enable"),  # required for bindings
            self.post("Accessibility.enable"),  # keeps the accessibility tree between observations
            self.post("Runtime.addBinding", {"name": BINDING, "executionContextName": CONTEXT}),
            *(
                self.post(
                    "Page.addScriptToEvaluateOnNewDocument",
                    {"source": source, "runImmediately": True, **({"worldName": name} if name else {})},
                )
                for source, name in ((IN_FRAMES, CONTEXT), (IN_PAGES, ""))
            ),
            self.post("Page.setInterceptFileChooserDialog", {"enabled": True}),
            self.post("Input.setInterceptDrags", {"enabled": True}),
            self.post("Runtime.runIfWaitingForDebugger"),
            self.post(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
            ),
            self.post("Emulation.setFocusEmulationEnabled", {"enabled": True}),
            self.post(  # makes pages that respect this setting show dialogs at once, without animation
                "Emulation.setEmulatedMedia",
                {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]},
            ),
        ]
        for command in commands:
            browser.result(command, LOAD_S)

    # ---- the browser -----------------------------------------------------------------------------------------------

    def post(self, method: str, params: dict[str, Any] | None = None) -> Posted:
        return self.browser.post(method, params, self.session)

    def call(self, method: str, params: dict[str, Any] | None = None, timeout_s: float = STEP_S) -> Any:
        """Send a command and wait for its answer. Raises: Refused, Late, Crashed; DialogOpened by a dialog."""
        return self.result(self.post(method, params), timeout_s)

    def result(self, posted: Posted, timeout_s: float = STEP_S) -> Any:
        """Wait for the answer to a command. Raises: as `call`."""
        if self.crashed:
            raise Crashed("the page has crashed")
        if self.asking is not None:  # the page is halted and answers no command
            raise DialogOpened
        return self.browser.result(posted, timeout_s)

    def finish(self, posted: Posted) -> None:
        """Wait for the end of an input event, and stop the scripts of a page that does not handle it in time."""
        try:
            self.result(posted)
        except Late:
            self.post("Runtime.terminateExecution")
            raise

    def evaluate(
        self, expression: str, timeout_s: float = STEP_S, context: int | None = None, wait: bool = False
    ) -> Any:
        """Return the value of a script, run in the page or in the isolated execution context `context`.

        `wait`: if the value is a promise, return what it resolves to. Raises: Refused if the script fails; as `call`.
        """
        params = {"expression": expression, "returnByValue": True, "awaitPromise": wait}
        if context is not None:
            params["contextId"] = context
        answer = self.call("Runtime.evaluate", params, timeout_s)
        if "exceptionDetails" in answer:
            raise Refused(str(answer["exceptionDetails"].get("exception", {}).get("description", ""))[:300])
        return answer.get("result", {}).get("value")

    def isolated_context(self, frame: str = "") -> int:
        """Return an isolated execution context of a frame, of the main one by default.

        It sees the frame's elements, but nothing that its scripts defined.
        """
        frame = frame or self.main
        if frame not in self._contexts:
            isolated = self.call("Page.createIsolatedWorld", {"frameId": frame, "worldName": CONTEXT})
            self._contexts[frame] = isolated["executionContextId"]
        return self._contexts[frame]

    def inner_frames(self) -> list[tuple[str, str]]:
        """Return id and parent's id of the frames inside the page, in document order; at most 30."""
        frames: list[tuple[str, str]] = []
        pending = [self.call("Page.getFrameTree")["frameTree"]]
        while pending and len(frames) < _MAX_FRAMES:
            node = pending.pop()
            children = node.get("childFrames", [])
            frames += [(child["frame"]["id"], node["frame"]["id"]) for child in children]
            pending += reversed(children)
        return frames[:_MAX_FRAMES]

    def answer_dialog(self, accept: bool, text: str) -> None:
        """Answer the dialog that waits. Raises: NotPossible if none does."""
        if self.asking is None:
            raise NotPossible("No dialog is open.")
        self.asking = None
        try:
            self.call("Page.handleJavaScriptDialog", {"accept": accept, **({"promptText": text} if accept else {})})
        except Refused as error:
            raise NotPossible("The dialog is gone.") from error

    # ---- events ----------------------------------------------------------------------------------------------------

    def _on_event(self, method: str, params: dict[str, Any]) -> None:
        """Handle an event. Called on the reading thread."""
        if method == "Page.frameRequestedNavigation":
            if params.get("disposition", "currentTab") in ("currentTab", "download"):
                self._navigating.add(params["frameId"])
        elif method == "Page.frameStartedLoading":
            self._loading.add(params["frameId"])
        elif method == "Page.frameStoppedLoading":
            self._end_loading(params["frameId"])
        elif method == "Page.frameNavigated":
            frame = params["frame"]["id"]
            self._contexts.pop(frame, None)
            if frame == self.main:
                self._contexts.clear()
                self.shows += 1
            self._forget_requests(frame)
            self.end_navigation(frame)
        elif method in ("Page.navigatedWithinDocument", "Page.frameClearedScheduledNavigation"):
            self.end_navigation(params["frameId"])
        elif method == "Page.frameDetached":
            self._forget_requests(params["frameId"])
            self.end_navigation(params["frameId"])
            self._end_loading(params["frameId"])
        elif method.startswith("Network."):
            self._on_request(method, params)
        elif method == "Page.javascriptDialogOpening":
            self._on_dialog(params)
        elif method == "Page.fileChooserOpened":
            self.chooser = params.get("backendNodeId")
        elif method == "Runtime.bindingCalled" and params["name"] == BINDING:
            self._on_binding(params["payload"], params["executionContextId"])
        elif method == "Input.dragIntercepted":
            with self._navigation:
                self._drag = params["data"]
                self._navigation.notify_all()
        elif method == "Inspector.targetCrashed":
            self.mark_crashed()

    def _on_request(self, method: str, params: dict[str, Any]) -> None:
        """Record that a script's request has begun or ended, or that part of its answer has come."""
        request, now = params.get("requestId", ""), time.monotonic()
        with self._navigation:
            if method == "Network.requestWillBeSent":
                # requests of a worker's script have no loader, and their end is not reported
                if params.get("type") in _AWAITED and params["loaderId"]:
                    self._requests[request] = (params.get("frameId", ""), now + _REQUESTS_S)
            elif request in self._requests:
                frame, _ = self._requests.pop(request)
                goes_on = method in ("Network.responseReceived", "Network.dataReceived")
                if goes_on and params.get("response", {}).get("mimeType") != "text/event-stream":
                    self._requests[request] = (frame, now + _BODY_S)
                self._navigation.notify_all()

    def _forget_requests(self, frame: str) -> None:
        """Forget the requests of a frame's page, because the page is gone."""
        with self._navigation:
            self._requests = {key: request for key, request in self._requests.items() if request[0] != frame}

    def _on_dialog(self, params: dict[str, Any]) -> None:
        message, kind = str(params.get("message", ""))[:500], str(params.get("type", "alert"))
        if kind == "alert" or not self._ask:
            self.dialogs.append(message)
            self.post("Page.handleJavaScriptDialog", {"accept": True})
            return
        self.asking = {"kind": kind, "message": message, "default": str(params.get("defaultPrompt", ""))[:500]}
        self.browser.interrupt(self.session)

    def _on_binding(self, payload: str, context: int) -> None:
        """Handle a message of `IN_FRAMES`: about the clipboard, or that the page allows or prevents a drag."""
        if payload.startswith("drag"):
            self._drag_begun = payload == "drag"
        elif (script := self._clipboard.on_message(payload)) is not None:
            self.post("Runtime.evaluate", {"expression": script, "contextId": context, "userGesture": True})

    def mark_crashed(self) -> None:
        """Fail every command that waits for the page, because its process has died."""
        self.crashed = True
        self.browser.fail(self.session)
        with self._navigation:
            self._navigating.clear()
            self._loading.clear()
            self._requests.clear()
            self._navigation.notify_all()

    def end_navigation(self, frame: str) -> None:
        """Record that the navigation of a frame has finished or was abandoned."""
        with self._navigation:
            self._navigating.discard(frame)
            self._navigation.notify_all()

    def _end_loading(self, frame: str) -> None:
        with self._navigation:
            self._loading.discard(frame)
            self._navigation.notify_all()

    # ---- waiting -----------------------------------------------------------------------------------------------------

    def open(self, url: str) -> str:
        """Go to a page and wait until it has loaded.

        Returns: empty if the page was reached; otherwise Chromium's reason, and the address at which a redirect ended.
        Raises: NotPossible if the text is not an address.
        """
        try:
            answer = self.call("Page.navigate", {"url": url}, LOAD_S)
        except Refused as error:
            if "invalid URL" in str(error):
                raise NotPossible(f"{url[:80]!r} is no address.") from error
            raise
        self.settle(LOAD_S)
        reason = str(answer.get("errorText", ""))
        if reason in ("", "net::ERR_ABORTED"):  # a download aborts the navigation
            return ""
        address = self.unreachable()
        return reason if address in ("", url) else f"it leads to {address}, {reason}"

    def go_in_history(self, offset: int) -> bool:
        """Move in the history of the tab. Returns: whether there is such a page."""
        history = self.call("Page.getNavigationHistory")
        index = history["currentIndex"] + offset
        if not 0 <= index < len(history["entries"]) or history["entries"][index]["url"] == "about:blank":
            return False
        self._navigating.add(self.main)
        self.call("Page.navigateToHistoryEntry", {"entryId": history["entries"][index]["id"]}, LOAD_S)
        return True

    def reload(self) -> None:
        self._navigating.add(self.main)
        self.call("Page.reload", timeout_s=LOAD_S)

    def settle(self, step_s: float = STEP_S) -> None:
        """Wait until the effects of the last action are complete: handlers have run, a requested page has loaded.

        Also waits for the answers to scripts' requests, but only a few seconds, and only once. `step_s` limits how long
        the page's scripts may run without a pause.
        """
        began = time.monotonic()
        quiet_checks = 0
        while quiet_checks < 2 and time.monotonic() < began + LOAD_S:
            complete = self._run_pending_tasks(step_s)
            with self._navigation:
                page_comes = bool(self._navigating or self._loading)
                latest = max((until for _, until in self._requests.values()), default=0.0)
                left_s = min(latest, began + _REQUESTS_S) - time.monotonic()
                if complete and not page_comes and left_s <= 0:
                    self._requests.clear()
                    quiet_checks += 1
                    continue
                quiet_checks = 0
                if not self._navigation.wait(_NAVIGATION_S if page_comes else max(left_s, _POLL_S)) and page_comes:
                    self._navigating.clear()  # not a page: a download, or an empty response
                    self._loading.clear()  # a frame may have a page that never completes

    def _run_pending_tasks(self, step_s: float) -> bool:
        """Let the page run its pending tasks. Returns: whether the document has loaded."""
        try:
            # in this context timers are the browser's own, whatever the page has replaced
            context = self.isolated_context()
            return bool(self.evaluate(scripts.BREATHE, step_s, context, wait=True) == "complete")
        except Refused:
            return False  # the page has been left
        except Late:
            self.post("Runtime.terminateExecution")
            raise

    def drag_data(self, timeout_s: float) -> dict[str, Any] | None:
        """Return the data that the page gave to a drag, as the browser's drag data; None if no drag has begun."""
        if not self._drag_begun and self._drag is None:
            return None
        with self._navigation:
            self._navigation.wait_for(lambda: self._drag is not None or not self._drag_begun, timeout_s)
        return self._drag

    def forget_drag(self) -> None:
        self._drag, self._drag_begun = None, False

    # ---- where it is -------------------------------------------------------------------------------------------------

    def location(self) -> list[Any]:
        """Return address and scroll position."""
        location = self.evaluate(
            "[location.href, Math.round(scrollX), Math.round(scrollY)]", context=self.isolated_context()
        )
        return location or ["", 0, 0]

    def unreachable(self) -> str:
        """Return the unreachable address if Chromium shows its error page; else ""."""
        return str(self.call("Page.getFrameTree")["frameTree"]["frame"].get("unreachableUrl", ""))
