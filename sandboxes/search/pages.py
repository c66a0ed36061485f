"""Renders pages for an agent: result lines, windows of a long page, sentences that contain a text."""

from __future__ import annotations

import re
from collections.abc import Collection

from .index.page_store import Page
from .index.words import words

SNIPPET_CHARS = 160
MAX_LINKS_SHOWN = 50
MAX_FOUND = 10
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def result_line(number: int, page: Page, query: str) -> str:
    """Render `3. [Title] The sentence that shares most words with the query.`, on one line."""
    return f"{number}. [{page.title}] {snippet(page.text, words(query))}".rstrip()


def sentences(text: str) -> list[str]:
    """Return a text cut after full stops, question and exclamation marks, and at line ends."""
    return [sentence for sentence in _SENTENCE.split(text) if sentence.strip()]


def snippet(text: str, query_words: Collection[str]) -> str:
    """Return the first sentence with most of the query words, cut to SNIPPET_CHARS."""
    best, most = "", -1
    for sentence in sentences(text[:20_000]):
        held = len(set(words(sentence)) & set(query_words))
        if held > most:
            best, most = sentence, held
    best = " ".join(best.split())
    return best if len(best) <= SNIPPET_CHARS else best[: SNIPPET_CHARS - 3].rstrip() + "..."


def windows(text: str, chars: int) -> list[str]:
    """Return a text in pieces of at most `chars` characters, cut between lines, sentences or words if possible."""
    pieces, at = [], 0
    while len(text) - at > chars:
        half, end = at + chars // 2, at + chars
        cut = max(text.rfind("\n", half, end), text.rfind(". ", half, end) + 1)
        if cut <= 0:
            cut = text.rfind(" ", half, end)
        cut = cut if cut > half else end
        pieces.append(text[at:cut].strip())
        at = cut
    return [*pieces, text[at:].strip()]


def page_window(page: Page, number: int, chars: int) -> str:
    """Render a page's window with this number, from 1, under its title, with the links that the text does not show."""
    parts = windows(page.text, chars)
    heading = f"# {page.title}" + (f" (part {number} of {len(parts)})" if len(parts) > 1 else "")
    hidden = [link for link in page.links if f"[{link}]" not in page.text]
    lines = [heading, parts[number - 1]]
    if hidden:
        more = f" and {len(hidden) - MAX_LINKS_SHOWN} more" if len(hidden) > MAX_LINKS_SHOWN else ""
        lines.append("Links: " + ", ".join(f"[{link}]" for link in hidden[:MAX_LINKS_SHOWN]) + more)
    return "\n".join(lines)


def found_lines(page: Page, text: str, chars: int) -> list[str]:
    """Return at most MAX_FOUND sentences of a page that contain a text, ignoring case, with their part numbers."""
    needle = " ".join(text.casefold().split())
    lines = []
    for number, part in enumerate(windows(page.text, chars), start=1):
        for sentence in sentences(part):
            if needle in " ".join(sentence.casefold().split()):
                lines.append(f"(part {number}) {' '.join(sentence.split())[:400]}")
    return lines[:MAX_FOUND]
