"""What a page shows, as text of bounded length."""

from __future__ import annotations

from typing import Any, Literal, get_args

View = Literal["tree", "text", "screenshot", "marks"]
VIEWS: tuple[View, ...] = get_args(View)
_MAX_LINE = 400


def shown(seen: dict[str, Any], max_chars: int) -> str:
    """A line about the page, what it said in dialogs, then its elements and its text as far as they were asked for.

    Args:
        seen: as the guest tells it. `max_chars`: of the elements, and of the text, each.
    """
    tabs, at = seen["tabs"]
    head = f"Page {seen['title'][:100]!r} {seen['url'][:300]}" + (f" (tab {at} of {tabs})" if tabs > 1 else "")
    parts = [head, *(f"The page said: {said!r}" for said in seen["dialogs"][:5])]
    if "lines" in seen:
        parts.append(
            _cut([f"{' ' * min(depth, 8)}[{number}] {text}" for number, depth, text in seen["lines"]], max_chars)
        )
    if "text" in seen:
        text = str(seen["text"] or "").strip()
        parts.append(
            text if len(text) <= max_chars else f"{text[:max_chars]}\n[cut: {max_chars} of {len(text)} characters]"
        )
    return "\n".join(part for part in parts if part)


def _cut(lines: list[str], max_chars: int) -> str:
    kept: list[str] = []
    room = max_chars
    for place, line in enumerate(lines):
        line = line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 3] + "..."
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*kept, f"[cut: {len(lines) - place} more elements]"])
        kept.append(line)
    return "\n".join(kept)
