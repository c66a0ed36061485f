"""`agentgym/web-v1` and `agentgym/web-form-v1`: pages in real Chromium, and the tools to read and act on them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import Field

from agentgym import Checkpoint, Environment, Message, SandboxSpec, Task, ToolError, tool
from agentgym.errors import SandboxDied, SandboxError, SandboxUnavailable
from agentgym.messages import ImagePart, Part, TextPart
from agentgym.sandbox import Channel

from .browsers import Browser, Browsers, browsers_of, chromium
from .judge import OVER
from .observation import VIEWS, View, shown
from .parameters import APPS, Parameters

SYSTEM = "Act on the page by [numbers] or names of its elements. To end the task, or to tell what was asked, answer."
CALL_S, TOOL_S = 180.0, 200.0
"""The guest bounds what a page takes; these are for the machine, which may be busy."""
Seen = str | list[Part]
"""What an action shows: text, or text and pictures."""
Element = Annotated[int | str, Field(description="Its number, or its name if no other has it.")]
Key = Literal[
    "Enter", "Tab", "Escape", "Backspace", "Delete", "Space", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight",
    "PageUp", "PageDown", "Home", "End", "Control+a", "Control+c", "Control+x", "Control+v",
]  # fmt: skip


class WebForm(Environment):
    """Pages with forms in Chromium, with few tools. Not isolated: episodes of one browser share its processes.

    Each episode has a browser context and a page server of its own, and reaches nothing else. The browser's own sandbox
    is off (it cannot be nested); ours stands in its place. Task parameters: see `Parameters`.

    Args:
        observe: what the agent sees after each action, any of `tree` (accessibility tree), `text`, `screenshot` and
            `marks` (a screenshot with the elements' numbers).
        max_chars: of each kind of text at most, in characters.
    """

    sandbox = SandboxSpec(
        memory_mib=4096, processes=800, disk_mib=768, open_files=8192, cpu_cores=2.0, environment=(("TZ", "UTC"),)
    )
    reward = "web"

    def __init__(self, *, observe: Sequence[View] = ("tree",), max_chars: int = 6_000) -> None:
        if unknown := [view for view in observe if view not in VIEWS]:
            raise ValueError(f"Web has no view {unknown[0]!r}. Views are {', '.join(VIEWS)}.")
        if not observe or max_chars < 200:
            raise ValueError(f"Web needs at least one view and max_chars >= 200, not {observe!r} and {max_chars}.")
        self._observe, self._max_chars = tuple(observe), max_chars
        self._turn = asyncio.Lock()  # parallel calls of one turn happen in their order
        self._browsers: Browsers | None = None
        self._browser: Browser | None = None
        self._channel: Channel | None = None
        self._running: asyncio.Task[Any] | None = None
        self._done: list[list[Any]] = []
        self._over = False
        self._key = ""

    @classmethod
    def unavailable_reason(cls) -> str:
        """What to install where no Chromium is found."""
        try:
            chromium()
        except SandboxUnavailable as error:
            return str(error)
        return ""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Open the task's first page in a fresh context. Raises: TaskError if there is no such site."""
        parameters = Parameters.of(task)
        archive = await asyncio.to_thread(parameters.archive)
        if self._channel is None:
            await self._lease()
        assert self._browser is not None
        path = await self._browser.put(archive) if archive is not None else ""
        self._done, self._over = [], False
        begin = {"site": parameters.site_in(path), "viewport": parameters.viewport, "observe": self._observe}
        try:
            seen = await self._ask({"do": "begin", **begin})
        except ToolError as error:  # nobody acted yet
            raise SandboxDied(f"{task.id}: the first page does not come up: {error}") from error
        self._key = seen["key"]
        opening = task.opening()
        said = [Message("user", seen["words"])] if seen["words"] else opening[-1:]
        parts = self._shown(seen)
        last = said[0].text
        content: str | tuple[Part, ...] = (
            f"{last}\n\n{parts}" if isinstance(parts, str) else (TextPart(f"{last}\n\n"), *parts)
        )
        return [Message("system", SYSTEM), *opening[:-1], Message("user", content)]

    @tool(timeout_s=TOOL_S)
    async def click(self, element: Element) -> Seen:
        """Click an element."""
        return await self._act("click", element)

    @tool(timeout_s=TOOL_S)
    async def type(self, element: Element, text: str) -> Seen:
        """Type a text into a field, in place of what it holds."""
        return await self._act("type", element, text)

    @tool(timeout_s=TOOL_S)
    async def select(self, element: Element, option: str) -> Seen:
        """Choose an option of a list; in a list with several choices, switch it."""
        return await self._act("select", element, option)

    @tool(final=True, max_output_chars=200_000, timeout_s=TOOL_S)
    async def answer(self, text: str = "") -> str:
        """End the task, with the answer if one was asked for."""
        async with self._turn:
            return await self._end()

    async def state_key(self) -> str | None:
        """Hash of the pages' state and of all that the last look at them showed."""
        return self._key

    async def checkpoint(self) -> Checkpoint | None:
        """The actions so far, and what they came to. The pages are a function of them, but for those with a clock."""
        return Checkpoint({"done": [list(action) for action in self._done], "key": self._key})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        """Do it all again. Raises: SandboxDied if an application of ours is not as it was after that."""
        await self.reset(task, seed=seed)
        for action, *arguments in checkpoint.data["done"]:
            with suppress(ToolError):  # it was refused then, too
                await self._act(action, *arguments)
        then = checkpoint.data["key"]
        if task.parameters["site"] in APPS and self._key != then:
            raise SandboxDied(
                f"{task.id}: the pages are not what they were after the same {len(self._done)} actions "
                f"(state {self._key}, not {then}): one of them was lost, then or now."
            )

    async def close(self) -> None:
        """End the episode's context; the browser stays warm for others."""
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
        """Number, role, line and box (left, top, right, bottom, in pixels) of every element that has a place."""
        async with self._turn:
            found: list[list[Any]] = await self._ask({"do": "boxes"})
            return found

    async def evaluate(self, script: str) -> Any:
        """The value of a script in the page. Not a tool: for whoever writes an oracle."""
        async with self._turn:
            return await self._ask({"do": "evaluate", "script": script})

    # ---- inside ----------------------------------------------------------------------------------------------------

    async def _lease(self) -> None:
        if self.backend is None:
            await self.open_sandbox()  # says what is missing
        assert self.backend is not None and self.sandbox is not None
        self._browsers = browsers_of(self.backend)
        self._browser = await self._browsers.lease(self.sandbox)
        self._channel = await self._browser.open_episode()

    async def _act(self, action: str, *arguments: Any) -> Seen:
        """One action, and what is seen after it. Raises: ToolError if it cannot be done."""
        async with self._turn:
            if self._over:
                raise ToolError("The task is over.")
            self._done.append([action, *arguments])
            seen = await self._ask({"do": "act", "action": action, "arguments": arguments, "observe": self._observe})
            self._key = seen["key"]
            if seen["over"]:
                self.end_episode()
                return await self._end()
            return self._shown(seen)

    async def _end(self) -> str:
        """What the episode came to, as the reward reads it."""
        outcome = await self._ask({"do": "outcome"})
        self._over = True
        return OVER + json.dumps(outcome, sort_keys=True)

    def _shown(self, seen: dict[str, Any]) -> Seen:
        text = shown(seen, self._max_chars)
        pictures = [ImagePart(seen[view]) for view in ("screenshot", "marks") if view in seen]
        return [TextPart(text), *pictures] if pictures else text

    async def _ask(self, request: dict[str, Any]) -> Any:
        """One request to the guest. It goes on if the call is cancelled: the next one waits for its end."""
        if self._channel is None:
            raise SandboxError("The web environment was used before reset.")
        if self._running is not None and not self._running.done():
            await asyncio.wait([self._running])
        self._running = asyncio.ensure_future(self._channel.request(request, timeout_s=CALL_S))
        self._running.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            reply = await asyncio.shield(self._running)
        except TimeoutError as error:
            raise SandboxDied(f"The browser did not answer within {CALL_S:g} s.") from error
        if not isinstance(reply, dict) or "died" in reply:
            raise SandboxDied(f"The browser failed: {str(reply)[:300]}")
        if "refused" in reply:
            raise ToolError(str(reply["refused"]))
        return reply["ok"]


class Web(WebForm):
    """Web pages in Chromium, in a sandbox without a network. Not isolated: episodes of one browser share its processes.

    `WebForm` with all that can be done to a page: by coordinates, with keys, the wheel and the pointer, over tabs.
    """

    @tool(timeout_s=TOOL_S)
    async def click_at(self, x: int, y: int) -> Seen:
        """Click a point of the view, in pixels."""
        return await self._act("click_at", x, y)

    @tool(timeout_s=TOOL_S)
    async def press(self, key: Key) -> Seen:
        """Press a key."""
        return await self._act("press", key)

    @tool(timeout_s=TOOL_S)
    async def scroll(self, direction: Literal["up", "down"], element: Element = 0) -> Seen:
        """Scroll the page, or what holds an element."""
        return await self._act("scroll", direction, element)

    @tool(timeout_s=TOOL_S)
    async def drag(self, element: Element, onto: Element) -> Seen:
        """Drag an element onto another."""
        return await self._act("drag", element, onto)

    @tool(timeout_s=TOOL_S)
    async def drag_at(self, x: int, y: int, to_x: int, to_y: int) -> Seen:
        """Drag from a point of the view to another, in pixels."""
        return await self._act("drag_at", x, y, to_x, to_y)

    @tool(timeout_s=TOOL_S)
    async def hover(self, element: Element) -> Seen:
        """Move the pointer onto an element."""
        return await self._act("hover", element)

    @tool(timeout_s=TOOL_S)
    async def back(self) -> Seen:
        """Go back to the page before."""
        return await self._act("back")

    @tool(timeout_s=TOOL_S)
    async def tab(self, number: int) -> Seen:
        """Change to another tab."""
        return await self._act("tab", number)

    @tool(timeout_s=TOOL_S)
    async def wait(self, seconds: Annotated[float, Field(ge=0.0, le=2.0)] = 1.0) -> Seen:
        """Wait, and look again."""
        return await self._act("wait", seconds)
