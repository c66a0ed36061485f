"""A page of MiniWoB++ in the hands of a scripted player: it may read elements, and acts only with tools."""

from __future__ import annotations

import json
import re
from typing import Any

from agentgym import Call, Environment, Message
from agentgym.errors import AgentGymError, ToolError
from agentgym.sandboxes.gui.judge import TASK_OVER

from .elements import SUBMIT, quoted

FIELDS = (
    "textbox",
    "searchbox",
    "spinbutton",
    "combobox",
    "Date",
    "InputTime",
    "Time",
    "listbox",
    "slider",
    "ColorWell",
)
"""Roles that take text, or an option."""


class Stuck(AgentGymError):
    """The player cannot continue."""


class Unclear(Stuck):
    """The page's request fits several elements, but only one is accepted, so no player can know which."""


class Page:
    """One episode. `ask`: the page's request. `reward`: the page's reward; None before it is given."""

    def __init__(self, environment: Environment, opening: list[Message]) -> None:
        self.environment, self.ask = environment, opening[-1].text.partition("\n\n")[0]
        self.reward: float | None = None

    # ---- reading ---------------------------------------------------------------------------------------------------

    async def js(self, script: str) -> Any:
        """Return the value of a script, awaited if it is a promise: for reading only."""
        if self.reward is not None:
            raise Stuck("the episode was over before the player was done")
        try:
            return await self.environment.evaluate(script)
        except ToolError as error:
            raise Stuck(str(error)) from error

    def match(self, pattern: str) -> tuple[str, ...]:
        """Return the groups of a pattern in the page's request. Raises: Stuck if the page asks for something else."""
        match = re.search(pattern, self.ask)
        if match is None:
            raise Stuck(f"{self.ask!r} does not match {pattern!r}")
        return match.groups()

    def quoted_text(self, index: int = 0) -> str:
        """Return words that the page's request puts in quotes, by their index. Raises: Stuck if there are too few."""
        words = quoted(self.ask)
        if index >= len(words):
            raise Stuck(f"{self.ask!r} quotes {len(words)} times")
        return words[index]

    async def texts(self, elements: str) -> list[str]:
        """Return the trimmed texts of the elements that a script names."""
        return list(await self.js(f"({elements}).map(e => e.textContent.trim())"))

    async def shows(self, element: str) -> bool:
        """Return whether the element that a script names exists and takes up space."""
        return bool(await self.js(f"(e => !!e && e.getBoundingClientRect().width > 0)({element})"))

    async def box(self, element: str) -> tuple[float, float, float, float]:
        """Scroll the element that a script names into view. Returns: left, top, right, bottom. Raises: Stuck."""
        box = await self.js(
            f"(e => {{ if (!e) return null; e.scrollIntoView({{block: 'nearest'}}); "
            f"const r = e.getBoundingClientRect(); "
            f"return r.width + r.height ? [r.left, r.top, r.right, r.bottom] : null }})({element})"
        )
        if box is None:
            raise Stuck(f"no element {element}")
        left, top, right, bottom = box
        return left, top, right, bottom

    async def middle(self, element: str) -> tuple[int, int]:
        left, top, right, bottom = await self.box(element)
        return round((left + right) / 2), round((top + bottom) / 2)

    async def number(self, element: str, roles: tuple[str, ...] = FIELDS) -> int:
        """Return the number of the element that a script names, among elements of some roles, by default of all."""
        left, top, right, bottom = await self.box(element)
        best: tuple[float, int] | None = None
        for number, role, _, (x1, y1, x2, y2) in await self.environment.boxes():  # type: ignore[attr-defined]
            if not roles or role in roles:
                off = abs(x1 - left) + abs(y1 - top) + abs(x2 - right) + abs(y2 - bottom)
                best = min(best or (off, number), (off, number))
        if best is None:
            raise Stuck(f"no field {element}")
        return best[1]

    # ---- acting ----------------------------------------------------------------------------------------------------

    async def act(self, tool: str, **arguments: Any) -> None:
        """Use a tool. Raises: Stuck with the tool's refusal."""
        if self.reward is not None:
            return
        result = await self.environment.call(Call(tool, arguments))
        text = result.message().text
        if not result.ok:
            raise Stuck(f"{tool}{arguments}: {text}")
        if text.startswith(TASK_OVER):
            self.reward = json.loads(text[len(TASK_OVER) :]).get("page_reward")

    async def click(self, element: str) -> None:
        """Click the middle of the element that a script names."""
        x, y = await self.middle(element)
        if "click_at" in self.environment.tools:
            await self.act("click_at", x=x, y=y)
        else:
            await self.act("click", target=[x, y])

    async def hover(self, element: str) -> None:
        await self.act("hover", element=await self.number(element, roles=()))

    async def type(self, element: str, text: str) -> None:
        await self.act("type", element=await self.number(element), text=text)

    async def press(self, key: str) -> None:
        await self.act("press", key=key)

    async def select(self, element: str, option: str) -> None:
        await self.act("select", element=await self.number(element), option=option)

    async def wait(self, seconds: float) -> None:
        await self.act("wait", seconds=seconds)

    async def drag(self, start: str, end: str) -> None:
        """Drag from the middle of one element to the middle of another."""
        await self.move(await self.middle(start), await self.middle(end))

    async def move(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag from point to point, in pixels."""
        await self.act("drag_at", x=round(start[0]), y=round(start[1]), to_x=round(end[0]), to_y=round(end[1]))

    async def submit(self) -> None:
        """Press the button that submits the form."""
        await self.click(SUBMIT)
