"""What the search environments call the pages that questions carry along: several of them may share a title."""

from __future__ import annotations


class PageNames:
    """Names of paragraphs, given in the order of the file, as the index of the same file gives them.

    A paragraph with the text of an earlier one of its title is the same page. One with another text is another page,
    `Title (2)`. Titles that differ in case alone are told apart by their own name in brackets.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._names: dict[str, str] = {}  # what a page is called in the end, by its numbered title
        self._taken: set[str] = set()

    def name(self, title: str, text: str) -> str:
        """Return the name of the page with this title and text, which is added if it is new."""
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
