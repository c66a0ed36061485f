"""A web page as text, with links in brackets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser

MAX_LINKS = 2_000
_SILENT = {"script", "style", "noscript", "template", "svg", "head", "iframe", "object"}
_BLOCKS = {
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "td",
    "th",
    "tr",
    "ul",
}


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page that was fetched. `links`: from what stands between brackets, folded, to an address as the page has it."""

    url: str
    title: str
    text: str
    links: Mapping[str, str]


def read_html(url: str, html: str) -> WebPage:
    """The text of a page. Never raises, whatever the server sent."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.pieces).split("\n"))
    text = re.sub(r"\n{2,}", "\n", "\n".join(lines)).strip()
    return WebPage(url, " ".join("".join(reader.title).split())[:300] or url[:300], text, reader.links)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.title: list[str] = []
        self.links: dict[str, str] = {}
        self._silent: list[str] = []  # open elements whose text nobody sees
        self._in_title = False
        self._anchor: tuple[str, int] | None = None  # address, and where its text begins

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title":
            self._in_title = True
        elif tag in _SILENT:
            self._silent.append(tag)
        elif tag == "body":
            self._silent.clear()  # a head that was never closed
        elif tag == "a":
            self._end_anchor()
            address = dict(attrs).get("href")
            self._anchor = (address, len(self.pieces)) if address else None
        elif tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in self._silent:
            while self._silent.pop() != tag:
                pass
        elif tag == "a":
            self._end_anchor()
        elif tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._silent:
            self.pieces.append(data)

    def _end_anchor(self) -> None:
        if self._anchor is None:
            return
        address, start = self._anchor
        self._anchor = None
        text = " ".join("".join(self.pieces[start:]).split()).replace("[", "(").replace("]", ")")
        if text and len(self.links) < MAX_LINKS:
            self.links.setdefault(text.casefold(), address)
            self.pieces[start:] = [f"[{text}]"]
