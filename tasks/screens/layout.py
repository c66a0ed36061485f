"""A window of a made-up program as plain data: where everything lies, and what a sentence could call it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from .words import PLACES, Words

WIDTHS, HEIGHTS = (480, 560, 640, 800, 1024), (360, 420, 480, 600, 720)
Box = list[int]


@dataclass(slots=True)
class Named:
    """Something that can be pointed at: its widget, and by kind of question how it is called."""

    widget: dict[str, Any]
    calls: dict[str, str] = field(default_factory=dict)

    @property
    def box(self) -> Box:
        return list(self.widget["box"])


@dataclass(slots=True)
class Layout:
    """A screen and what is on it. `rows` are widget tuples (row, checkbox, button); `fields` and `tabs` as drawn."""

    screen: dict[str, Any]
    named: list[Named] = field(default_factory=list)

    def add(self, kind: str, box: Box, text: str = "", on: bool = False, calls: dict[str, str] | None = None) -> Named:
        """Put a widget on the screen. `calls`: by kind of question, how a sentence calls it."""
        widget: dict[str, Any] = {"kind": kind, "box": box, "text": text} | ({"on": True} if on else {})
        self.screen["widgets"].append(widget)
        made = Named(widget, calls or {})
        self.named.append(made)
        return made

    def of(self, question: str) -> list[Named]:
        """What a question of this kind can be about, each called by a name that nothing else has."""
        found = [one for one in self.named if question in one.calls]
        names = [one.calls[question] for one in found]
        return [one for one in found if names.count(one.calls[question]) == 1]


def layout(rng: random.Random, words: Words) -> Layout:
    """Draw a window with a toolbar, tabs, a form and a list, each somewhere else than last time."""
    width, height = rng.choice(WIDTHS), rng.choice(HEIGHTS)
    made = Layout({"width": width, "height": height, "theme": rng.choice(("light", "dark", "paper")), "widgets": []})
    left, top = rng.randint(4, 40), rng.randint(4, 30)
    right, bottom = width - rng.randint(4, 40), height - rng.randint(4, 30)
    made.add("window", [left, top, right, bottom], rng.choice(words.windows))
    made.add("icon", [right - 22, top + 3, right - 4, top + 21], "cross", calls={"icon": "close icon of the window"})
    y = _toolbar(made, rng, words, left + 8, right - 8, top + 30)
    y = _tabs(made, rng, words, left + 8, right - 8, y + 6)
    middle = left + (right - left) * rng.randint(42, 58) // 100
    form, rows = ((left + 8, middle - 6), (middle + 6, right - 8))
    if rng.random() < 0.5:
        form, rows = (middle + 6, right - 8), (left + 8, middle - 6)
    _form(made, rng, words, *form, y + 8, bottom - 40)
    _rows(made, rng, words, *rows, y + 8, bottom - 40)
    _buttons(made, rng, words, left + 8, right - 8, bottom - 32)
    return made


def _toolbar(made: Layout, rng: random.Random, words: Words, left: int, right: int, top: int) -> int:
    side = rng.randint(18, 28)
    step = side + rng.randint(3, 8)
    for place, icon in enumerate(rng.sample(sorted(set(PLACES) - {"cross"}), rng.randint(3, 7))):
        x = left + place * step
        if x + side > right:
            break
        called = f"{PLACES[icon]} icon ({icon}) of the toolbar"
        made.add("icon", [x, top, x + side, top + side], icon, calls={"icon": called})
    return top + side


def _tabs(made: Layout, rng: random.Random, words: Words, left: int, right: int, top: int) -> int:
    names = rng.sample(words.tabs, rng.randint(2, 4))
    wide, high = min(110, (right - left) // len(names)), rng.randint(20, 26)
    chosen = rng.randrange(len(names))
    for place, name in enumerate(names):
        box = [left + place * wide, top, left + (place + 1) * wide, top + high]
        made.add("tab", box, name, place == chosen, {"text": f"tab {name}"})
    return top + high


def _form(made: Layout, rng: random.Random, words: Words, left: int, right: int, top: int, bottom: int) -> None:
    high, gap = rng.randint(20, 26), rng.randint(6, 12)
    count = max(1, min(6, (bottom - top) // (high + gap)))
    half = left + (right - left) * 2 // 5
    for place, name in enumerate(rng.sample(words.fields, min(count, rng.randint(2, 6)))):
        y = top + place * (high + gap)
        made.add("label", [left, y, half, y + high], name)
        value = rng.choice((*words.people, *words.things, "", ""))
        made.add("field", [half + 4, y, right, y + high], value, calls={"field": f"field of {name}"})


def _rows(made: Layout, rng: random.Random, words: Words, left: int, right: int, top: int, bottom: int) -> None:
    high = rng.randint(22, 28)
    count = max(1, min(8, (bottom - top) // (high + 2)))
    action = rng.choice(words.buttons)
    for place, thing in enumerate(rng.sample(words.things, min(count, len(words.things)))):
        y = top + place * (high + 2)
        made.add("checkbox", [left, y + 3, left + high - 6, y + high - 3], on=rng.random() < 0.3,
                 calls={"relation": f"checkbox of the row {thing}"})  # fmt: skip
        row, called = f"{thing} {rng.randint(2, 99)}", f"{action} button of the row {thing}"
        made.add("row", [left + high, y, right - 58, y + high], row, calls={"text": f"row {row}"})
        made.add("button", [right - 54, y, right, y + high], action, calls={"relation": called})


def _buttons(made: Layout, rng: random.Random, words: Words, left: int, right: int, top: int) -> None:
    names = rng.sample(words.buttons, rng.randint(2, 3))
    wide, high = rng.randint(64, 96), 26
    ends_right = rng.random() < 0.5
    for place, name in enumerate(names):
        x = right - (place + 1) * (wide + 6) if ends_right else left + place * (wide + 6)
        where = "at the bottom of the window"
        made.add("button", [x, top, x + wide, top + high], name, place == 0, {"button": f"{name} button {where}"})
