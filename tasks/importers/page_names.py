"""Computes the names that search environments give to the pages in a file of questions.

Several pages may share a title.
"""

from __future__ import annotations


class PageNames:
    """Names a file's paragraphs, which must be given in file order, as the search index of the file does.

    A paragraph with the title and the text of an earlier one is the same page. A paragraph with the same title but
    another text is a new page, `Title (2)`. If titles differ only in case, the later ones get a name with an addition
    in brackets.
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
