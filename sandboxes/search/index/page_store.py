"""The pages of a corpus on disk: a file of JSON lines, the start of each line, and a map from title to page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agentgym import TaskError

from .folders import array_at, bytes_at
from .keys import Keys, write_keys

VERSION = "pages-1"
MAX_PAGE_CHARS = 2_000_000


@dataclass(frozen=True, slots=True)
class Page:
    """One page. `id`: its name in the corpus. `title`: unique. `links`: titles that its text has as `[title]`."""

    id: str
    title: str
    text: str
    links: tuple[str, ...] = ()


class PageStore:
    """Read-only pages by number and title; pages stay on disk until they are read."""

    def __init__(self, folder: Path) -> None:
        self._offsets = array_at(folder / "offsets.npy")
        self._titles = Keys(folder, "titles")
        self._lines = bytes_at(folder / "pages.jsonl")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> Page:
        start, end = self._offsets[number : number + 2]
        row = json.loads(self._lines[start:end])
        return Page(row[0], row[1], row[2], tuple(row[3]))

    def __iter__(self) -> Iterator[Page]:
        return (self[number] for number in range(len(self)))

    def number(self, title: str) -> int | None:
        """Return the number of the page with this title, ignoring case and spaces; None if there is none."""
        return self._titles.get(folded(title))


def folded(title: str) -> str:
    """Return the form of a title that is used in comparisons."""
    return " ".join(title.casefold().split())


def write_pages(folder: Path, pages: Iterable[Page]) -> None:
    """Write pages in their order; the page's id is appended to a title that is missing or taken.

    Raises: TaskError if a page is too long, a title is not unique even with the id, or the corpus has no pages.
    """
    offsets, titles, taken = [0], list[str](), set[str]()
    with (folder / "pages.jsonl").open("wb") as file:
        for page in pages:
            if len(page.text) > MAX_PAGE_CHARS:
                raise TaskError(
                    f"The page {page.title!r} has {len(page.text)} characters, but at most {MAX_PAGE_CHARS} are "
                    "allowed."
                )
            title = " ".join(page.title.split())
            if not title or folded(title) in taken:
                title = f"{title} ({page.id})".strip()
            if folded(title) in taken:
                raise TaskError(
                    f"Two pages have the title {page.title!r} and the id {page.id!r}. Give them different ids."
                )
            taken.add(folded(title))
            titles.append(folded(title))
            line = json.dumps([page.id, title, page.text, page.links], ensure_ascii=False).encode("utf-8", "replace")
            offsets.append(offsets[-1] + file.write(line + b"\n"))
    if not titles:
        raise TaskError("The corpus contains no pages.")
    np.save(folder / "offsets.npy", np.array(offsets, np.int64))
    write_keys(folder, "titles", titles)
