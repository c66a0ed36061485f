"""Renders an observation of a page as text of bounded length."""

from __future__ import annotations

from typing import Any, Literal, get_args

View = Literal["tree", "text", "screenshot", "marks"]
VIEWS: tuple[View, ...] = get_args(View)
_MAX_LINE = 2_000


def render(observed: dict[str, Any], max_chars: int) -> str:
    """Return a line about the page, its dialogs, then its elements and its text if they were requested.

    Args:
        observed: the observation as the guest sends it.
        max_chars: maximum length of the text. The guest has already bounded the elements.
    """
    tabs, current = observed["tabs"]
    unreachable = observed.get("unreachable", "")[:300]
    head = f"Page {observed['title'][:100]!r} {unreachable or observed['url'][:300]}" + (
        f" (tab {current} of {tabs})" if tabs > 1 else ""
    )
    parts = [head, *(f"The page said: {message!r}" for message in observed["dialogs"][:5])]
    parts += [f"Downloaded {name!r} ({size} bytes)" for name, size in observed.get("downloads", ())]
    if unreachable:
        parts.append(f"{unreachable!r} cannot be reached.")
    if observed.get("crashed"):
        parts.insert(0, "The page crashed on this action, and was loaded anew.")
    if observed.get("chooser"):
        parts.append("The page asks for a file: give it with upload.")
    if asking := observed.get("asking"):
        default = f" (default {asking['default']!r})" if asking.get("default") else ""
        parts.append(f"The page asks ({asking['kind']}): {asking['message']!r}{default}. Answer it with dialog.")
    if "lines" in observed:
        lines = [f"{' ' * min(depth, 8)}[{number}] {text[:_MAX_LINE]}" for number, depth, text in observed["lines"]]
        parts.append("\n".join(lines))
    if "text" in observed:
        text = str(observed["text"] or "").strip()
        parts.append(
            text if len(text) <= max_chars else f"{text[:max_chars]}\n[cut: {max_chars} of {len(text)} characters]"
        )
    if "extent" in observed:
        top, height, page_height = observed["extent"]
        before, after = observed.get("cut", (0, 0))
        cut = f"; of what is in view {before} elements before these and {after} after them are left out"
        in_view = f"in view: {top} to {top + height} of {page_height} px{cut if before or after else ''}"
        parts.append(f"[{in_view}: scroll for the rest]")
    return "\n".join(part for part in parts if part)
