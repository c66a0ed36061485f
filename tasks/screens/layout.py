"""Generates the window of an invented program as plain data: its widgets, their boxes and their descriptions."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from .words import PLACES, ScreenVocabulary

WIDTHS, HEIGHTS = (480, 560, 640, 800, 1024), (360, 420, 480, 600, 720)
Box = list[int]


@dataclass(slots=True)
class TargetWidget:
    """A widget that a question can ask for, and its description for each kind of question."""

    widget: dict[str, Any]
    descriptions: dict[str, str] = field(default_factory=dict)

    @property
    def box(self) -> Box:
        return list(self.widget["box"])


@dataclass(slots=True)
class Layout:
    """A screen as plain data, and the widgets on it that can be pointed at."""

    screen: dict[str, Any]
    targets: list[TargetWidget] = field(default_factory=list)

    def add(
        self, kind: str, box: Box, text: str = "", on: bool = False, descriptions: dict[str, str] | None = None
    ) -> TargetWidget:
        """Add a widget to the screen. `descriptions`: its description for each kind of question."""
        widget: dict[str, Any] = {"kind": kind, "box": box, "text": text} | ({"on": True} if on else {})
        self.screen["widgets"].append(widget)
        target = TargetWidget(widget, descriptions or {})
        self.targets.append(target)
        return target

    def targets_of(self, question: str) -> list[TargetWidget]:
        """Return the widgets that this kind of question can ask for: those with a description that no other widget
        has.
        """
        targets = [target for target in self.targets if question in target.descriptions]
        descriptions = [target.descriptions[question] for target in targets]
        return [target for target in targets if descriptions.count(target.descriptions[question]) == 1]


def layout(rng: random.Random, words: ScreenVocabulary) -> Layout:
    """Draw a window with a toolbar, tabs, a form and a list at random positions."""
    width, height = rng.choice(WIDTHS), rng.choice(HEIGHTS)
    window = Layout({"width": width, "height": height, "theme": rng.choice(("light", "dark", "paper")), "widgets": []})
    left, top = rng.randint(4, 40), rng.randint(4, 30)
    right, bottom = width - rng.randint(4, 40), height - rng.randint(4, 30)
    window.add("window", [left, top, right, bottom], rng.choice(words.windows))
    window.add(
        "icon", [right - 22, top + 3, right - 4, top + 21], "cross", descriptions={"icon": "close icon of the window"}
    )
    y = _toolbar(window, rng, words, left + 8, right - 8, top + 30)
    y = _tabs(window, rng, words, left + 8, right - 8, y + 6)
    middle = left + (right - left) * rng.randint(42, 58) // 100
    form, rows = ((left + 8, middle - 6), (middle + 6, right - 8))
    if rng.random() < 0.5:
        form, rows = (middle + 6, right - 8), (left + 8, middle - 6)
    _form(window, rng, words, *form, y + 8, bottom - 40)
    _rows(window, rng, words, *rows, y + 8, bottom - 40)
    _buttons(window, rng, words, left + 8, right - 8, bottom - 32)
    return window


def _toolbar(window: Layout, rng: random.Random, words: ScreenVocabulary, left: int, right: int, top: int) -> int:
    side = rng.randint(18, 28)
    step = side + rng.randint(3, 8)
    for number, icon in enumerate(rng.sample(sorted(set(PLACES) - {"cross"}), rng.randint(3, 7))):
        x = left + number * step
        if x + side > right:
            break
        description = f"{PLACES[icon]} icon ({icon}) of the toolbar"
        window.add("icon", [x, top, x + side, top + side], icon, descriptions={"icon": description})
    return top + side


def _tabs(window: Layout, rng: random.Random, words: ScreenVocabulary, left: int, right: int, top: int) -> int:
    names = rng.sample(words.tabs, rng.randint(2, 4))
    tab_width, tab_height = min(110, (right - left) // len(names)), rng.randint(20, 26)
    chosen = rng.randrange(len(names))
    for number, name in enumerate(names):
        box = [left + number * tab_width, top, left + (number + 1) * tab_width, top + tab_height]
        window.add("tab", box, name, number == chosen, {"text": f"tab {name}"})
    return top + tab_height


def _form(
    window: Layout, rng: random.Random, words: ScreenVocabulary, left: int, right: int, top: int, bottom: int
) -> None:
    field_height, gap = rng.randint(20, 26), rng.randint(6, 12)
    count = max(1, min(6, (bottom - top) // (field_height + gap)))
    half = left + (right - left) * 2 // 5
    for number, name in enumerate(rng.sample(words.fields, min(count, rng.randint(2, 6)))):
        y = top + number * (field_height + gap)
        window.add("label", [left, y, half, y + field_height], name)
        value = rng.choice((*words.people, *words.things, "", ""))
        window.add("field", [half + 4, y, right, y + field_height], value, descriptions={"field": f"field of {name}"})


def _rows(
    window: Layout, rng: random.Random, words: ScreenVocabulary, left: int, right: int, top: int, bottom: int
) -> None:
    row_height = rng.randint(22, 28)
    count = max(1, min(8, (bottom - top) // (row_height + 2)))
    action = rng.choice(words.buttons)
    for number, thing in enumerate(rng.sample(words.things, min(count, len(words.things)))):
        y = top + number * (row_height + 2)
        window.add(
            "checkbox",
            [left, y + 3, left + row_height - 6, y + row_height - 3],
            on=rng.random() < 0.3,
            descriptions={"relation": f"checkbox of the row {thing}"},
        )
        text, description = f"{thing} {rng.randint(2, 99)}", f"{action} button of the row {thing}"
        window.add(
            "row", [left + row_height, y, right - 58, y + row_height], text, descriptions={"text": f"row {text}"}
        )
        window.add("button", [right - 54, y, right, y + row_height], action, descriptions={"relation": description})


def _buttons(window: Layout, rng: random.Random, words: ScreenVocabulary, left: int, right: int, top: int) -> None:
    names = rng.sample(words.buttons, rng.randint(2, 3))
    width, height = rng.randint(64, 96), 26
    ends_right = rng.random() < 0.5
    for number, name in enumerate(names):
        x = right - (number + 1) * (width + 6) if ends_right else left + number * (width + 6)
        description = f"{name} button at the bottom of the window"
        window.add(
            "button",
            [x, top, x + width, top + height],
            name,
            number == 0,
            {"button": description},
        )
