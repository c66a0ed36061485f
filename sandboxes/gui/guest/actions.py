"""What the agent can do in a tab. Each method is the action of its name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from . import keys, scripts
from .cdp import Posted
from .elements import Elements
from .pointer import BUTTONS, Pointer, Target
from .tab import NotPossible, Tab

_MAX_TYPED, _MAX_PATH = 2_000, 100


class Actions:
    """The actions on a tab."""

    def __init__(self, tab: Tab, elements: Elements) -> None:
        self._tab, self._elements = tab, elements
        self._pointer = Pointer(tab, elements)

    def click(self, target: Target, button: str = "left", count: int = 1, held: str = "") -> None:
        if button not in BUTTONS or not 1 <= count <= 3:
            raise NotPossible(f"Buttons are {', '.join(BUTTONS)}, and clicks 1 to 3.")
        self._pointer.click(target, button, count, self._modifiers(held))

    def hover(self, target: Target) -> None:
        self._pointer.hover(target)

    def drag(self, path: list[Target]) -> None:
        if not 2 <= len(path) <= _MAX_PATH:
            raise NotPossible(f"A drag goes over 2 to {_MAX_PATH} places, not {len(path)}.")
        self._pointer.drag(path)

    def type(self, target: Target, text: str) -> None:
        if len(text) > _MAX_TYPED:
            raise NotPossible(f"The text is {len(text)} characters long: at most {_MAX_TYPED} can be typed at once.")
        if isinstance(target, (list, tuple)):  # types into whatever gets the keyboard at that point
            self._pointer.click(target)
            self._send(keys.events("Control+a"))
        else:
            kind = self._elements.on(target, scripts.PREPARE_TYPING, text)
            if kind == "no":
                raise NotPossible(f"[{target}] takes no text: choose a field.")
            if kind == "set":
                return
        self._send(keys.typed(text) if text else keys.events("Backspace"))

    def press(self, key: str) -> None:
        try:
            pressed = keys.events(key)
        except keys.UnknownKey as error:
            raise NotPossible(str(error)) from error
        self._send(pressed)

    def select(self, element: int | str, option: str) -> None:
        answer = self._elements.on(element, scripts.CHOOSE, option)
        if answer != "ok":
            raise NotPossible(str(answer)[:600] if answer else f"[{element}] has no options to select from.")

    def fill(self, value: str) -> None:
        """Fill in the page's first field as its kind requires, and send its form."""
        fields = {role: number for number, _, role, _ in reversed(self._elements.lines)}
        if "textbox" in fields:
            self.type(fields["textbox"], value)
        elif "combobox" in fields:
            self.select(fields["combobox"], value)
            return self.click(fields.get("button", "Next"))
        elif radios := [number for number, role in self._elements.named(value) if role == "radio"]:
            self.click(radios[0])
        else:
            raise NotPossible(f"The page has no field that could hold {value[:60]!r}.")
        return self.press("Enter")

    def scroll(self, direction: str, element: int | str = 0) -> None:
        """Scroll the page, or the container of an element, by most of its size.

        If the view has more than fits into an observation, the rest of the view is shown first.
        """
        if element:
            self._elements.on(element, scripts.SCROLL_IN, direction)
        elif direction in ("left", "right") or not self._elements.turn_page(direction == "down"):
            context = self._tab.isolated_context()
            self._tab.evaluate(scripts.SCROLL % json.dumps(direction), context=context)

    def back(self) -> None:
        if not self._tab.go_in_history(-1):
            raise NotPossible("There is no page to go back to.")

    def forward(self) -> None:
        if not self._tab.go_in_history(1):
            raise NotPossible("There is no page to go forward to.")

    def reload(self) -> None:
        self._tab.reload()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _modifiers(self, held: str) -> int:
        try:
            return keys.modifiers_of(held)
        except keys.UnknownKey as error:
            raise NotPossible(str(error)) from error

    def _send(self, events: Iterable[dict[str, Any]]) -> None:
        posted: list[Posted] = [self._tab.post("Input.dispatchKeyEvent", event) for event in events]
        self._tab.finish(posted[-1])


class OpenTab:
    """A tab with its elements and actions."""

    def __init__(self, tab: Tab) -> None:
        self.tab, self.elements = tab, Elements(tab)
        self.actions = Actions(tab, self.elements)
