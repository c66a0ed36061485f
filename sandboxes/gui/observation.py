"""Renders an observation of a page as text of bounded length."""

from __future__ import annotations

from typing import Any, Literal, get_args

View = Literal["tree", "text", "screenshot", "marks"]
VIEWS: tuple[View, ...] = get_args(View)
_MAX_LINE = 400


def render(observed: dict[str, Any], max_chars: int) -> str:
    """A line about the page, its dialogs, then its elements and its text if they were requested.

    Args:
        observed: the observation as the guest sends it.
        max_chars: the most characters of the elements, and of the text.
    """
    tabs, current = observed["tabs"]
    head = f"Page {observed['title'][:100]!r} {observed['url'][:300]}" + (
        f" (tab {current} of {tabs})" if tabs > 1 else ""
    )
    parts = [head, *(f"The page said: {message!r}" for message in observed["dialogs"][:5])]
    if "lines" in observed:
        parts.append(
            _truncate_lines(
                [f"{' ' * min(depth, 8)}[{number}] {text}" for number, depth, text in observed["lines"]], max_chars
            )
        )
    if "text" in observed:
        text = str(observed["text"] or "").strip()
        parts.append(
            text if len(text) <= max_chars else f"{text[:max_chars]}\n[cut: {max_chars} of {len(text)} characters]"
        )
    return "\n".join(part for part in parts if part)


def _truncate_lines(lines: list[str], max_chars: int) -> str:
    shown_lines: list[str] = []
    chars_left = max_chars
    for index, line in enumerate(lines):
        line = line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 3] + "..."
        chars_left -= len(line) + 1
        if chars_left < 0:
            return "\n".join([*shown_lines, f"[cut: {len(lines) - index} more elements]"])
        shown_lines.append(line)
    return "\n".join(shown_lines)
