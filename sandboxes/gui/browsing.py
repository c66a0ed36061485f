"""`agentgym/web-v2`: everything that a person does with a browser, in thirteen tools with one way to name targets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agentgym import tool

from .environment import TOOL_S, Observation, WebPages
from .judge import MAX_END_CHARS

Target = Annotated[
    int | str | Annotated[list[int], Field(min_length=2, max_length=2)],
    Field(description="An element's number, its name if no other has it, or a point [x, y] of the view."),
]
Element = Annotated[int | str, Field(description="An element's number, or its name if no other has it.")]


class WebBrowser(WebPages):
    """Web pages in Chromium, with every key, button, dialog, file and tab. Not isolated: episodes share a browser.

    Confirmations and prompts wait for an answer. Task parameters: see `WebParameters`.
    """

    task_set = "web/apps-v2"

    asks = True

    @tool(timeout_s=TOOL_S, parallel=False)
    async def click(
        self,
        target: Target,
        button: Literal["left", "middle", "right"] = "left",
        count: Annotated[int, Field(ge=1, le=3)] = 1,
        held: str = "",
    ) -> Observation:
        """Click an element or a point; twice for a double click.

        Args:
            held: keys held meanwhile, such as Control or Control+Shift.
        """
        return await self._act("click", target, button, count, held)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def hover(self, target: Target) -> Observation:
        """Move the pointer onto an element or a point."""
        return await self._act("hover", target)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def drag(self, path: Annotated[list[Target], Field(min_length=2, max_length=100)]) -> Observation:
        """Drag from the first place of a path over the others to the last."""
        return await self._act("drag", path)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def type(self, target: Target, text: str) -> Observation:
        """Type a text into a field, in place of what it holds."""
        return await self._act("type", target, text)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def press(self, key: Annotated[str, Field(max_length=60)]) -> Observation:
        """Press a key, or several at once: Enter, a, F5, ArrowDown, Control+Shift+k."""
        return await self._act("press", key)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def select(self, element: Element, option: str) -> Observation:
        """Choose an option of a list; in a list with several choices, switch it."""
        return await self._act("select", element, option)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def scroll(self, direction: Literal["up", "down", "left", "right"], element: Element = 0) -> Observation:
        """Scroll the page, or what holds an element."""
        return await self._act("scroll", direction, element)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def go(self, to: Annotated[str, Field(max_length=2_000)]) -> Observation:
        """Go `back`, go `forward`, `reload`, or open an address or path of the site."""
        if to in ("back", "forward", "reload"):
            return await self._act(to)
        return await self._act("goto", to)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def tab(self, do: Literal["switch", "close", "open"], number: int = 0) -> Observation:
        """Change to a tab, close one (by default the current one), or open one at the first page."""
        return await self._act("tab", do, number)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def dialog(self, accept: bool, text: Annotated[str, Field(max_length=2_000)] = "") -> Observation:
        """Accept or decline the dialog of the page; `text` answers a prompt."""
        return await self._act("dialog", accept, text)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def upload(self, element: Element, files: list[str]) -> Observation:
        """Give files, by their names, to a file field or to what opens the choice of a file."""
        return await self._act("upload", element, files)

    @tool(timeout_s=TOOL_S, parallel=False)
    async def wait(self, seconds: Annotated[float, Field(ge=0.0, le=2.0)] = 1.0) -> Observation:
        """Wait, and look again."""
        return await self._act("wait", seconds)

    @tool(final=True, max_output_chars=MAX_END_CHARS, timeout_s=TOOL_S, parallel=False)
    async def answer(self, text: str = "") -> str:
        """End the task, with the answer if one was asked for."""
        return await self._end()
