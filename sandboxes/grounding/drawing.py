"""Draws a screen from plain data, so that the position of every box is known to the pixel.

A screen is `{"width", "height", "theme", "widgets"}`. A widget is `{"kind", "box", "text"}` with box [x0, y0, x1, y1]
in pixels, x1 and y1 excluded. `on` ticks a checkbox, marks a tab or row as chosen, or gives a field the cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agentgym import TaskError

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

MAX_SIDE, MAX_WIDGETS, MAX_TEXT = 4096, 400, 80
THEMES = {  # colours of background, text, frame, surface and accent
    "light": ("#f4f5f7", "#1c2330", "#b9c0cc", "#ffffff", "#2f6fde"),
    "dark": ("#20242c", "#e6e9ef", "#4a5261", "#2d333f", "#5b93f5"),
    "paper": ("#fbf6ea", "#3b2f22", "#cdbfa3", "#fffdf7", "#9a4f1f"),
}
ICONS = ("plus", "minus", "cross", "star", "disc", "ring", "square", "play", "menu", "arrow")
Box = tuple[int, int, int, int]


def draw(screen: Mapping[str, Any]) -> Image:
    """Return the screen as an RGB image. Raises: TaskError naming the widget and its fault."""
    from PIL import Image, ImageDraw

    width, height = checked_size(screen)
    theme = THEMES.get(str(screen.get("theme", "light")))
    widgets = screen.get("widgets")
    if theme is None or not isinstance(widgets, (list, tuple)) or len(widgets) > MAX_WIDGETS:
        raise TaskError(
            f"A screen must have a theme ({', '.join(THEMES)}) and a list of at most {MAX_WIDGETS} widgets."
        )
    image = Image.new("RGB", (width, height), theme[0])
    pen = ImageDraw.Draw(image)
    for index, widget in enumerate(widgets):
        box = _box(widget, index, width, height)
        paint = KINDS.get(str(widget.get("kind")))
        if paint is None:
            raise TaskError(
                f"Widget {index} has the unknown kind {widget.get('kind')!r}. Kinds are: {', '.join(KINDS)}."
            )
        paint(pen, box, str(widget.get("text", ""))[:MAX_TEXT], bool(widget.get("on")), theme)
    return image


def checked_size(screen: Mapping[str, Any]) -> tuple[int, int]:
    """Return width and height in pixels. Raises: TaskError."""
    width, height = screen.get("width"), screen.get("height")
    if not all(isinstance(side, int) and 16 <= side <= MAX_SIDE for side in (width, height)):
        raise TaskError(f"A screen must be 16 to {MAX_SIDE} pixels wide and high, not {width!r} x {height!r}.")
    return int(width), int(height)  # type: ignore[arg-type]  # checked above to be ints


def _box(widget: Any, index: int, width: int, height: int) -> Box:
    box = widget.get("box") if isinstance(widget, Mapping) else None
    if isinstance(box, (list, tuple)) and len(box) == 4 and all(isinstance(side, int) for side in box):
        x0, y0, x1, y1 = box
        if 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height:
            return x0, y0, x1, y1
    raise TaskError(f"Widget {index} has the box {box!r}, which is not [x0, y0, x1, y1] inside {width} x {height}.")


@lru_cache(maxsize=64)
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _write(pen: ImageDraw, box: Box, text: str, colour: str, *, centred: bool = True, inset: int = 0) -> None:
    """Draw text inside a box, smaller if it would not fit."""
    x0, y0, x1, y1 = box
    x0 += inset
    size = max(7, min(16, int((y1 - y0) * 0.62)))
    while size > 7 and pen.textlength(text, font=_font(size)) > x1 - x0 - 4:
        size -= 1
    middle = (y0 + y1) / 2
    if centred:
        pen.text(((x0 + x1) / 2, middle), text, colour, font=_font(size), anchor="mm")
    else:
        pen.text((x0 + 3, middle), text, colour, font=_font(size), anchor="lm")


def _button(pen: ImageDraw, box: Box, text: str, on: bool, theme: tuple[str, ...]) -> None:
    x0, y0, x1, y1 = box
    face, ink = (theme[4], theme[3]) if on else (theme[3], theme[1])
    pen.rounded_rectangle((x0, y0, x1 - 1, y1 - 1), 4, face, theme[2])
    _write(pen, box, text, ink)


def _field(pen: ImageDraw, box: Box, text: str, on: bool, theme: tuple[str, ...]) -> None:
    x0, y0, x1, y1 = box
    pen.rectangle((x0, y0, x1 - 1, y1 - 1), theme[3], theme[4] if on else theme[2], 2 if on else 1)
    _write(pen, box, text, theme[1], centred=False)


def _label(pen: ImageDraw, box: Box, text: str, on: bool, theme: tuple[str, ...]) -> None:
    _write(pen, box, text, theme[4] if on else theme[1], centred=False)


def _checkbox(pen: ImageDraw, box: Box, text: str, on: bool, theme: tuple[str, ...]) -> None:
    x0, y0, x1, y1 = box
    pen.rectangle((x0, y0, x1 - 1, y1 - 1), theme[3], theme[1])
    if on:
        pen.line((x0 + 3, (y0 + y1) // 2, (x0 + x1) // 2 - 1, y1 - 4, x1 - 4, y0 + 3), theme[4], 2)


def _tab(pen: ImageDraw, box: Box, text: str, on: bool, theme: tuple[str, ...]) -> None:
    x0, y0, x1, y1 = box
    pen.rectangle((x0, y0, x1 - 1, y1 - 1), theme[3] if on else theme[0], theme[2])
    if on:
        pen.line((x0, y1 - 1, x1 - 1, y1 - 1), theme[4], 3)
    _write(pen, box, text, theme[4] if on else theme[1])


def _row(pen: ImageDraw, box: Box, text: str, on: bool, theme: tuple[str, ...]) -> None:
    x0, y0, x1, y1 = box
    pen.rectangle((x0, y0, x1 - 1, y1 - 1), theme[4] if on else theme[3], theme[2])
    _write(pen, box, text, theme[3] if on else theme[1], centred=False, inset=4)


def _window(pen: ImageDraw, box: Box, text: str, on: bool, theme: tuple[str, ...]) -> None:
    x0, y0, x1, y1 = box
    pen.rectangle((x0, y0, x1 - 1, y1 - 1), theme[0], theme[2], 2)
    bar = (x0, y0, x1, min(y1, y0 + 24))
    pen.rectangle((bar[0], bar[1], bar[2] - 1, bar[3] - 1), theme[4])
    _write(pen, bar, text, theme[3], centred=False, inset=4)


def _icon(pen: ImageDraw, box: Box, text: str, on: bool, theme: tuple[str, ...]) -> None:
    x0, y0, x1, y1 = box
    pen.rounded_rectangle((x0, y0, x1 - 1, y1 - 1), 3, theme[3], theme[2])
    inset = max(3, (x1 - x0) // 5)
    a, b, c, d = x0 + inset, y0 + inset, x1 - 1 - inset, y1 - 1 - inset
    mx, my, ink = (a + c) // 2, (b + d) // 2, theme[1]
    if text == "plus":
        pen.line((a, my, c, my), ink, 2)
        pen.line((mx, b, mx, d), ink, 2)
    elif text == "minus":
        pen.line((a, my, c, my), ink, 2)
    elif text == "cross":
        pen.line((a, b, c, d), ink, 2)
        pen.line((a, d, c, b), ink, 2)
    elif text == "star":
        pen.regular_polygon((mx, my, (c - a) / 2), 3, 0, ink)
        pen.regular_polygon((mx, my, (c - a) / 2), 3, 180, ink)
    elif text == "disc":
        pen.ellipse((a, b, c, d), ink)
    elif text == "ring":
        pen.ellipse((a, b, c, d), None, ink, 2)
    elif text == "square":
        pen.rectangle((a, b, c, d), ink)
    elif text == "play":
        pen.polygon(((a, b), (c, my), (a, d)), ink)
    elif text == "menu":
        for y in (b, my, d):
            pen.line((a, y, c, y), ink, 2)
    elif text == "arrow":
        pen.line((a, my, c, my), ink, 2)
        pen.line((mx, b, c, my, mx, d), ink, 2)
    else:
        raise TaskError(f"There is no icon {text!r}. Icons are: {', '.join(ICONS)}.")


KINDS: dict[str, Callable[[ImageDraw, Box, str, bool, tuple[str, ...]], None]] = {
    "window": _window,
    "button": _button,
    "icon": _icon,
    "field": _field,
    "label": _label,
    "checkbox": _checkbox,
    "tab": _tab,
    "row": _row,
}
