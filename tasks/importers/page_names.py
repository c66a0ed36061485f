"""The search environments' names for the questions' own pages, which may share a title."""

from __future__ import annotations


class PageNames:
    """Names of paragraphs, given in file order, matching the names in the file's search index.

    A paragraph with the same title and text as an earlier one is the same page. With another text it is another page,
    `Title (2)`. Of titles that differ only in case, the later ones have their own name in brackets added.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._names: dict[str, str] = {}  # the page's final name, by numbered title
        self._taken: set[str] = set()

    def name(self, title: str, text: str) -> str:
        """Return the name of the page with this title and text, adding the page if it is new."""
        numbered, turn = title, 1
        while self._texts.get(numbered, text) != text:
            turn += 1
            numbered = f"{title} ({turn})"
        if numbered not in self._texts:
            self._texts[numbered] = text
            self._names[numbered] = self._unique(numbered)
        return self._names[numbered]

    def _unique(self, title: str) -> str:
        name = " ".join(title.split())
        if name.casefold() in self._taken:
            name = f"{name} ({title})"
        self._taken.add(name.casefold())
        return name
