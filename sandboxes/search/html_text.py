"""Converts a web page to text, with links in brackets.

Hand-written, because pages are hostile and are read in the trainer's process: on a page of 2 MiB, `html.parser` of
Python 3.11 takes minutes for comments that never end, and selectolax for deeply nested elements. trafilatura drops most
links.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape

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

# An unclosed element extends to the end of the page, as in browsers, so that its end is searched for only once.
_MARKUP = re.compile(
    r"""<(?: !--(?:-?>|.*?(?:--!?>|\Z))
    | [!?][^>]*+>?
    | (?P<slash>/?)(?P<name>[a-zA-Z][^\s/>]*+)(?P<attributes>(?:[^>"']++|"[^"]*+"?|'[^']*+'?)*+)>?
    )""",
    re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(
    r"""(?P<name>[^\s=/"'][^\s=/]*+)(?:\s*+=\s*+(?:"(?P<double>[^"]*+)"?|'(?P<single>[^']*+)'?|(?P<bare>[^\s"']\S*+)))?"""
)
_SELF_CLOSED = re.compile(r"""(?:^|[\s"'])/\s*\Z""")
_RAW_TEXT_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style", "title")}
_ENDLESS_NUMBER = re.compile(r"&#(?:[0-9]{8,}+|[xX][0-9a-fA-F]{8,}+);?")


@dataclass(frozen=True, slots=True)
class WebPage:
    """A fetched page. `links`: maps each bracketed text, folded, to the address as the page writes it."""

    url: str
    title: str
    text: str
    links: Mapping[str, str]


def read_html(url: str, html: str) -> WebPage:
    """Return the text of a page. Never raises, whatever the server sent; the time is linear in the length."""
    reader = _Reader()
    reader.read(html)
    lines = (" ".join(line.split()) for line in "".join(reader.pieces).split("\n"))
    text = re.sub(r"\n{2,}", "\n", "\n".join(lines)).strip()
    return WebPage(url, " ".join("".join(reader.title).split())[:300] or url[:300], text, reader.links)


class _Reader:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.title: list[str] = []
        self.links: dict[str, str] = {}
        self._silent: list[str] = []  # open elements with invisible text
        self._silent_counts: Counter[str] = Counter()
        self._anchor: tuple[str, int] | None = None  # the open link's address, and where its text begins

    def read(self, html: str) -> None:
        """Read a whole document."""
        position = 0
        while (markup := _MARKUP.search(html, position)) is not None:
            self._text(html[position : markup.start()])
            position = markup.end()
            if name := (markup["name"] or "").lower():
                if markup["slash"]:
                    self._end_tag(name)
                    continue
                self._start_tag(name, markup["attributes"])
                if _SELF_CLOSED.search(markup["attributes"]):
                    self._end_tag(name)
                elif end := _RAW_TEXT_ENDS.get(name):
                    start, found_end = position, end.search(html, position)
                    position = found_end.start() if found_end else len(html)
                    if name == "title":
                        self.title.append(_unescape(html[start:position]))
        self._text(html[position:])

    def _start_tag(self, tag: str, attributes: str) -> None:
        if tag in _SILENT:
            self._silent.append(tag)
            self._silent_counts[tag] += 1
        elif tag == "body":  # also ends a head that was never closed
            self._silent.clear()
            self._silent_counts.clear()
        elif tag == "a":
            self._end_anchor()
            address = _address(attributes)
            self._anchor = (address, len(self.pieces)) if address else None
        elif tag in _BLOCKS:
            self.pieces.append("\n")

    def _end_tag(self, tag: str) -> None:
        if self._silent_counts[tag]:
            closed = ""
            while closed != tag:
                closed = self._silent.pop()
                self._silent_counts[closed] -= 1
        elif tag == "a":
            self._end_anchor()
        elif tag in _BLOCKS:
            self.pieces.append("\n")

    def _text(self, text: str) -> None:
        if text and not self._silent:
            self.pieces.append(_unescape(text))

    def _end_anchor(self) -> None:
        if self._anchor is None:
            return
        address, start = self._anchor
        self._anchor = None
        text = " ".join("".join(self.pieces[start:]).split()).replace("[", "(").replace("]", ")")
        if text and len(self.links) < MAX_LINKS:
            self.links.setdefault(text.casefold(), address)
            self.pieces[start:] = [f"[{text}]"]


def _address(attributes: str) -> str:
    """Return the href of an anchor; "" if it has none."""
    address = ""
    for match in _ATTRIBUTE.finditer(attributes):
        if match["name"].lower() == "href":
            address = match["double"] or match["single"] or match["bare"] or ""
    return _unescape(address)


def _unescape(text: str) -> str:
    return unescape(_ENDLESS_NUMBER.sub("\N{REPLACEMENT CHARACTER}", text)) if "&" in text else text
