"""HTML safe from injection: all plain text is escaped, and only the output of `el` counts as markup."""

from __future__ import annotations

import html
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from agentgym.text import visible

STILL = "default-src 'none'; style-src 'unsafe-inline'"
"""The Content-Security-Policy of a page without scripts, images or external content."""


class Html(str):
    """Markup made by this module. A plain str is text, whatever it contains."""

    __slots__ = ()


Child = Html | str | int | float | None | Iterable["Child"]

_VOID = {"meta", "br", "hr", "circle", "line", "path", "rect", "polyline", "polygon"}


def el(name: str, *children: Child, **attributes: Any) -> Html:
    """Return an element. `cls` means class, underscores in attribute names become hyphens, None omits an attribute.

    Children that are plain text are escaped; nested lists are flattened.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
        parts.append(f" {key}" if value is True else f' {key}="{text(value)}"')
    parts.append(">")
    if name in _VOID and not children:
        return Html("".join(parts)[:-1] + "/>")
    return Html("".join(parts) + join(children) + f"</{name}>")


def join(children: Iterable[Child]) -> Html:
    """Concatenate children, escaping plain text."""
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            parts.append(child)
        elif isinstance(child, (str, int, float)):
            parts.append(text(child))
        else:
            parts.append(join(child))
    return Html("".join(parts))


def timestamp() -> str:
    """Return the current time in UTC, to the minute."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def text(value: Any) -> Html:
    """Return any value as escaped text, showing characters that hide or reorder text (see `visible`)."""
    return Html(html.escape(visible(value), quote=True))
