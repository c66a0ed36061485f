"""`agentgym/web-v1` and `agentgym/web-form-v1`: web pages in Chromium, with tools that read them and act on them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from agentgym import (
    Checkpoint,
    Environment,
    ImagePart,
    Message,
    Part,
    SandboxDied,
    SandboxError,
    SandboxSpec,
    SandboxUnavailable,
    Task,
    TaskError,
    TextPart,
    ToolError,
    tool,
)
from agentgym.sandbox import Channel

from .browsers import Browser, Browsers, browsers_of, chromium
from .judge import MAX_END_CHARS, TASK_OVER
from .observation import VIEWS, View, render
from .parameters import APPS, WebParameters

SYSTEM = "Act on the page by [numbers] or names of its elements. To end the task, or to tell what was asked, answer."
CALL_S, TOOL_S, SET_UP_S = 180.0, 200.0, 600.0
"""Timeouts in seconds: of a request, of a tool, and of the start of the task's own application. The guest limits each
page and each command; these timeouts also allow for a busy host and for other episodes set up first.
"""
Observation = str | list[Part]
"""What the agent sees after an action: text, or text and pictures."""
Element = Annotated[int | str, Field(description="Its number, or its name if no other has it.")]
Key = Literal[
    "Enter",
    "Tab",
    "Escape",
    "Backspace",
    "Delete",
    "Space",
    "ArrowUp",
    "ArrowDown",
    "ArrowLeft",
    "ArrowRight",
    "PageUp",
    "PageDown",
    "Home",
    "End",
    "Control+a",
    "Control+c",
    "Control+x",
    "Control+v",
]


class PageCrashed(SandboxDied):
    """The page's process has ended: an action of the agent crashed it, or the machine killed it."""


class WebPages(Environment):
    """Base of the web environments: pages in Chromium, without tools. Not isolated: one browser serves many episodes.

    Each episode has its own browser context and site, and can reach nothing else. Chromium's own sandbox is
    switched off, because it cannot be nested in ours. Task parameters: see `WebParameters`.

    Args:
        observe: what the agent sees after each action: any of `tree` (accessibility tree), `text`, `screenshot` and
            `marks` (a screenshot with the numbers of the elements).
        max_chars: the most characters shown of the tree, and of the text.
    """

    public_truth = ("effects",)  # may be shown: the prompt already asks for these effects
    sandbox = SandboxSpec(
        memory_mib=4096, processes=800, disk_mib=768, open_files=8192, cpu_cores=2.0, environment=(("TZ", "UTC"),)
    )
    reward = "web"
    asks: ClassVar[bool] = False
    """Whether confirmations and prompts wait for the tool `dialog`; otherwise they are accepted."""

    def __init__(self, *, observe: Sequence[View] = ("tree",), max_chars: int = 6_000) -> None:
        if unknown := [view for view in observe if view not in VIEWS]:
            raise ValueError(f"Web has no view {unknown[0]!r}. Its views are: {', '.join(VIEWS)}.")
        if not observe or max_chars < 200:
            raise ValueError(
                f"observe = {observe!r} and max_chars = {max_chars} are not valid: Web needs at least one view, and "
                "max_chars >= 200."
            )
        self._observe, self._max_chars = tuple(observe), max_chars
        self._browsers: Browsers | None = None
        self._browser: Browser | None = None
        self._channel: Channel | None = None
        self._running: asyncio.Task[Any] | None = None
        self._begin: dict[str, Any] = {}
        self._actions: list[list[Any]] = []
        self._crashes: set[int] = set()  # indices of the actions that crashed the page
        self._over = False
        self._key = ""
        self._steps: Sequence[int] = ()  # if the application has steps, their numbers: taken, taken correctly, all

    @classmethod
    def unavailable_reason(cls) -> str:
        """Return what to install if no Chromium is found."""
        try:
            chromium()
        except SandboxUnavailable as error:
            return str(error)
        return ""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Open the task's first page in a fresh browser context.

        Raises: TaskError if there is no such site or page, or if the task's own application does not start.
        """
        parameters = WebParameters.of(task)
        archives = await asyncio.to_thread(parameters.archives)
        if self._channel is None:
            await self._lease()
        assert self._browser is not None
        paths = [await self._browser.put(archive) for archive in archives]
        self._actions, self._crashes, self._over = [], set(), False
        look = {"views": self._observe, "max_chars": self._max_chars, "ask": self.asks}
        files = {name: base64.b64encode(text.encode()).decode() for name, text in parameters.files.items()}
        self._begin = {
            "site": parameters.site_in(paths),
            "viewport": parameters.viewport,
            "look": look,
            "files": files,
        }
        try:
            observed = await self._ask({"do": "begin", **self._begin})
        except ToolError as error:  # the agent has not acted yet, so it is not the cause
            raise SandboxDied(f"{task.id}: the first page could not be loaded: {error}") from error
        self._key, self._steps = observed["key"], observed["steps"] or ()
        opening = task.opening()
        prompt = [Message("user", observed["words"])] if observed["words"] else opening[-1:]
        observation = self._render(observed)
        last = prompt[0].text
        content: str | tuple[Part, ...] = (
            f"{last}\n\n{observation}" if isinstance(observation, str) else (TextPart(f"{last}\n\n"), *observation)
        )
        return [Message("system", SYSTEM), *opening[:-1], Message("user", content)]

    async def state_key(self) -> str | None:
        """Hash of the state of the pages and of the last observation."""
        return self._key

    async def checkpoint(self) -> Checkpoint | None:
        """Return the actions so far and the resulting state key. Pages that read no clock depend only on actions."""
        return Checkpoint({"done": [list(action) for action in self._actions], "key": self._key})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        """Repeat the actions. Raises: SandboxDied if a bundled application then has another state."""
        await self.reset(task, seed=seed)
        for action, *arguments in checkpoint.data["done"]:
            with suppress(ToolError):  # the action was refused in the original episode too
                await self._act(action, *arguments)
        expected_key = checkpoint.data["key"]
        if task.parameters["site"] in APPS and self._key != expected_key:
            raise SandboxDied(
                f"{task.id}: the same {len(self._actions)} actions led to other pages than before (state {self._key}, "
                f"not {expected_key}). One of the actions was lost, now or then."
            )

    async def close(self) -> None:
        """Close the episode's browser context. The browser keeps running for other episodes."""
        channel, self._channel = self._channel, None
        browser, self._browser = self._browser, None
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError, SandboxError, TimeoutError):
                await self._running
        try:
            if channel is not None:
                await channel.close()
        finally:
            if browser is not None and self._browsers is not None:
                self._browsers.release(browser)
            await super().close()

    # ---- for scripted players and tests ----------------------------------------------------------------------------

    async def boxes(self) -> list[list[Any]]:
        """Return number, role, line and box (left, top, right, bottom, in pixels) of every element with a layout."""
        elements: list[list[Any]] = await self._ask({"do": "boxes"})
        return elements

    async def evaluate(self, script: str) -> Any:
        """Return the value of a script run in the page. Not a tool: for oracles."""
        return await self._ask({"do": "evaluate", "script": script})

    # ---- inside ----------------------------------------------------------------------------------------------------

    async def _lease(self) -> None:
        if self.backend is None:
            await self.open_sandbox()  # raises an error that says what is missing
        assert self.backend is not None and self.sandbox is not None
        self._browsers = browsers_of(self.backend)
        self._browser = await self._browsers.lease(self.sandbox)
        self.sandboxes.shared = (self._browser.sandbox,)
        self._channel = await self._browser.open_episode()

    async def _act(self, action: str, *arguments: Any) -> Observation:
        """Perform one action and return the observation after it. Raises: ToolError if the action is not possible."""
        if self._over:
            raise ToolError("The task is over.")
        self._actions.append([action, *arguments])
        act = {"do": "act", "action": action, "arguments": arguments}
        try:
            observed = await self._ask(act)
        except PageCrashed as error:
            await self._repeat_actions(error)
            try:
                observed = await self._ask(act)
            except PageCrashed:  # the action crashed the page a second time, so it is the cause
                observed = await self._recover(len(self._actions) - 1)
        self._key, self._steps = observed["key"], observed["steps"] or ()
        if observed["over"]:
            self.end_episode()
            return await self._end()
        return self._render(observed)

    async def _repeat_actions(self, crash: PageCrashed) -> None:
        """Reset, and repeat all actions except the last, during which the page crashed.

        A crash that the machine caused, for example because it ran out of memory, does not happen a second time.

        Raises: SandboxDied if the page now crashes earlier, or a bundled application has another state.
        """
        state_key = self._key
        observed = await self._ask({"do": "begin", **self._begin})
        for index, (action, *arguments) in enumerate(self._actions[:-1]):
            try:
                observed = await self._ask({"do": "act", "action": action, "arguments": arguments})
            except ToolError:  # the action was refused the first time too
                continue
            except PageCrashed:
                if index not in self._crashes:
                    raise
                observed = await self._recover(index)
        if self._begin["site"]["kind"] == "app" and observed["key"] != state_key:
            raise SandboxDied("The page crashed, and after the same actions it is not as it was before.") from crash

    async def _recover(self, index: int) -> Any:
        """Continue after an action that crashes the page. Returns: the observation."""
        self._crashes.add(index)
        return {**await self._ask({"do": "recover"}), "crashed": True}

    async def _end(self) -> str:
        """End the task. Returns: its end state, as the reward reads it."""
        try:
            outcome = await self._ask({"do": "outcome"})
        except PageCrashed:
            await self._recover(len(self._actions))
            outcome = await self._ask({"do": "outcome"})
        self._over = True
        return TASK_OVER + json.dumps(outcome, sort_keys=True)

    def _render(self, observed: dict[str, Any]) -> Observation:
        text = render(observed, self._max_chars)
        pictures = [ImagePart(observed[view]) for view in ("screenshot", "marks") if view in observed]
        return [TextPart(text), *pictures] if pictures else text

    async def _ask(self, request: dict[str, Any]) -> Any:
        """Send a request to the guest. If this call is cancelled, the next request waits for the guest to answer."""
        if self._channel is None:
            raise SandboxError("The web environment was used before reset. Call reset first.")
        if self._running is not None and not self._running.done():
            await asyncio.wait([self._running])
        timeout_s = SET_UP_S if request.get("site", {}).get("kind") == "server" else CALL_S
        self._running = asyncio.ensure_future(self._channel.request(request, timeout_s=timeout_s))
        self._running.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            reply = await asyncio.shield(self._running)
        except TimeoutError as error:
            raise SandboxDied(f"The browser did not answer within {timeout_s:g} s.") from error
        if isinstance(reply, dict) and "site" in reply:
            raise TaskError(f"The site of the task failed: {reply['site']}")
        if isinstance(reply, dict) and "crashed" in reply:
            raise PageCrashed(f"The page has crashed: {reply['crashed']}")
        if not isinstance(reply, dict) or "died" in reply:
            raise SandboxDied(f"The browser failed: {str(reply)[:300]}")
        if "refused" in reply:
            raise ToolError(str(reply["refused"]))
        return reply["ok"]


class WebForm(WebPages):
    """Web pages with forms in Chromium, with few tools. Not isolated: episodes in one browser share its processes."""

    task_set = "web/forms-v1"

    @tool(timeout_s=TOOL_S, parallel=False)
    async def click(self, element: Element) -> Observation:
        """Click an element."""
        return await self._act("click", element)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def type(self, element: Element, text: str) -> Observation:
        """Type a text into a field, in place of what it holds."""
        return await self._act("type", element, text)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def select(self, element: Element, option: str) -> Observation:
        """Choose an option of a list; in a list with several choices, switch it."""
        return await self._act("select", element, option)

    @tool(final=True, max_output_chars=MAX_END_CHARS, timeout_s=TOOL_S, parallel=False)
    async def answer(self, text: str = "") -> str:
        """End the task, with the answer if one was asked for."""
        return await self._end()


class Web(WebForm):
    """Web pages in Chromium, in a sandbox without a network. Not isolated: episodes of one browser share its processes.

    `WebForm` with every further action on pages: coordinates, keys, the wheel, the pointer, tabs.
    """

    task_set = "web/apps-v1"

    @tool(timeout_s=TOOL_S, parallel=False)
    async def click_at(self, x: int, y: int) -> Observation:
        """Click a point of the view, in pixels."""
        return await self._act("click", [x, y])

    @tool(timeout_s=TOOL_S, parallel=False)
    async def press(self, key: Key) -> Observation:
        """Press a key."""
        return await self._act("press", key)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def scroll(self, direction: Literal["up", "down"], element: Element = 0) -> Observation:
        """Scroll the page, or what holds an element."""
        return await self._act("scroll", direction, element)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def drag(self, element: Element, onto: Element) -> Observation:
        """Drag an element onto another."""
        return await self._act("drag", [element, onto])

    @tool(timeout_s=TOOL_S, parallel=False)
    async def drag_at(self, x: int, y: int, to_x: int, to_y: int) -> Observation:
        """Drag from a point of the view to another, in pixels."""
        return await self._act("drag", [[x, y], [to_x, to_y]])

    @tool(timeout_s=TOOL_S, parallel=False)
    async def hover(self, element: Element) -> Observation:
        """Move the pointer onto an element."""
        return await self._act("hover", element)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def back(self) -> Observation:
        """Go back to the page before."""
        return await self._act("back")

    @tool(timeout_s=TOOL_S, parallel=False)
    async def tab(self, number: int) -> Observation:
        """Change to another tab."""
        return await self._act("tab", "switch", number)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def wait(self, seconds: Annotated[float, Field(ge=0.0, le=2.0)] = 1.0) -> Observation:
        """Wait, and look again."""
        return await self._act("wait", seconds)
