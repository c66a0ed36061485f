"""A page of MiniWoB++ in the hands of a scripted player: it may read elements, and acts by the tools alone."""

from __future__ import annotations

import json
from typing import Any

from agentgym import Call, Environment
from agentgym.errors import AgentGymError, ToolError
from agentgym.sandboxes.gui.judge import OVER

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


class Stuck(AgentGymError):
    """The player found no way on."""


class Page:
    """One episode. `reward` is what the page paid, None while it has not."""

    def __init__(self, environment: Environment, ask: str) -> None:
        self.environment, self.ask = environment, ask
        self.reward: float | None = None

    async def js(self, script: str) -> Any:
        """The value of a script: for reading only."""
        try:
            return await self.environment.evaluate(script)
        except ToolError as error:
            raise Stuck(str(error)) from error

    async def act(self, tool: str, **arguments: Any) -> None:
        """Use a tool. Raises: Stuck with what it refused."""
        if self.reward is not None:
            return
        result = await self.environment.call(Call(tool, arguments))
        text = result.message().text
        if not result.ok:
            raise Stuck(f"{tool}{arguments}: {text}")
        if text.startswith(OVER):
            self.reward = json.loads(text[len(OVER) :]).get("page_reward")

    async def box(self, element: str) -> tuple[float, float, float, float]:
        """Left, top, right, bottom of the element that a script names, scrolled into view. Raises: Stuck."""
        found = await self.js(
            f"(e => {{ if (!e) return null; e.scrollIntoView({{block: 'nearest'}}); "
            f"const r = e.getBoundingClientRect(); "
            f"return r.width + r.height ? [r.left, r.top, r.right, r.bottom] : null }})({element})"
        )
        if found is None:
            raise Stuck(f"no element {element}")
        return tuple(found)

    async def middle(self, element: str) -> tuple[int, int]:
        left, top, right, bottom = await self.box(element)
        return round((left + right) / 2), round((top + bottom) / 2)

    async def click(self, element: str) -> None:
        """Click the middle of the element that a script names."""
        x, y = await self.middle(element)
        await self.act("click_at", x=x, y=y)

    async def number(self, element: str) -> int:
        """The number of the field that a script names."""
        left, top, right, bottom = await self.box(element)
        best: tuple[float, int] | None = None
        for number, role, _, (x1, y1, x2, y2) in await self.environment.boxes():
            if role in FIELDS:
                off = abs(x1 - left) + abs(y1 - top) + abs(x2 - right) + abs(y2 - bottom)
                best = min(best or (off, number), (off, number))
        if best is None:
            raise Stuck(f"no field {element}")
        return best[1]

    async def type(self, element: str, text: str) -> None:
        await self.act("type", element=await self.number(element), text=text)

    async def select(self, element: str, option: str) -> None:
        await self.act("select", element=await self.number(element), option=option)

    async def drag(self, start: str, end: str) -> None:
        x, y = await self.middle(start)
        to_x, to_y = await self.middle(end)
        await self.act("drag_at", x=x, y=y, to_x=to_x, to_y=to_y)

    async def submit(self) -> None:
        """Press what ends a form."""
        await self.click(SUBMIT)


SUBMIT = (
    "document.querySelector('#subbtn') || [...document.querySelectorAll('button, input[type=submit]')]"
    ".find(b => /submit|login|search|agree|ok/i.test(b.textContent + b.value) && b.offsetParent)"
)
PAYING = """(() => {
  const source = e => {
    const all = [e.onclick, e.__onclick && (e.__onclick._ || e.__onclick)];
    for (const one of e.__on || []) if (one.type === 'click') all.push(one.value, one.listener);
    if (window.$ && $._data) for (const one of ($._data(e, 'events') || {}).click || []) all.push(one.handler);
    return all.filter(Boolean).map(String).join(' ');
  };
  return [...document.querySelectorAll('#area *')].find(e => {
    const text = source(e);
    return %s.test(text) && !/\\bif\\b|\\?/.test(text) && e.getBoundingClientRect().width;
  });
})()"""
"""The element whose own handler pays what a pattern says: the page's authors wrote down which one is right."""
