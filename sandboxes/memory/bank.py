"""A memory bank: short numbered texts, and a search for texts that share words with a query."""

from __future__ import annotations

import math
import re
from collections import Counter

from agentgym import ToolError

ENTRY_CHARS = 160
MAX_RESULTS = 3
"""Number of entries that a search returns."""


class MemoryBank:
    """Entries by number, in the order in which they were added.

    Args:
        capacity: the largest number of entries at once.
        entries: the initial entries, by number.
        next_number: the number of the next entry. A number is never used again.
    """

    def __init__(self, capacity: int, entries: dict[int, str] | None = None, next_number: int = 1) -> None:
        self.capacity, self.entries, self.next_number = capacity, dict(entries or {}), next_number

    def add(self, text: str) -> int:
        """Add an entry. Returns: its number. Raises: ToolError if the bank is full or the text is not a valid entry."""
        if len(self.entries) >= self.capacity:
            raise ToolError(f"The memory is full: it holds {self.capacity} entries. Update or delete one.")
        number, self.next_number = self.next_number, self.next_number + 1
        self.entries[number] = _entry(text)
        return number

    def update(self, number: int, text: str) -> None:
        """Replace an entry's text. Raises: ToolError if no entry has this number, or the text cannot be an entry."""
        self._require(number)
        self.entries[number] = _entry(text)

    def delete(self, number: int) -> None:
        """Delete an entry. Raises: ToolError if no entry has this number."""
        self._require(number)
        del self.entries[number]

    def search(self, query: str) -> list[str]:
        """Return the entries that share words with a query, the best match first. Entries without a shared word are
        left out.

        A word counts by its inverse document frequency, log(1 + n / n_with_it), so rare words count most. Among equal
        entries, the older is first.
        """
        texts = {number: words(text) for number, text in self.entries.items()}
        n_with = Counter(word for text in texts.values() for word in text)
        query_words = words(query)
        scores = {
            number: sum(math.log(1 + len(texts) / n_with[word]) for word in sorted(query_words & text))
            for number, text in texts.items()
        }
        best = sorted((number for number in texts if scores[number]), key=lambda number: -scores[number])
        return [self.entries[number] for number in best[:MAX_RESULTS]]

    def __str__(self) -> str:
        return "\n".join(f"{number}. {text}" for number, text in self.entries.items()) or "(empty)"

    def _require(self, number: int) -> None:
        if number not in self.entries:
            known = ", ".join(map(str, self.entries)) or "none"
            raise ToolError(f"The memory has no entry {number}. It has: {known}.")


def words(text: str) -> set[str]:
    """Return the words of a text, in lower case, without a final 's."""
    return set(re.findall(r"\w+", re.sub(r"'s\b", "", text.casefold())))


def _entry(text: str) -> str:
    text = " ".join(text.split())
    if not text:
        raise ToolError("An entry has a text.")
    if len(text) > ENTRY_CHARS:
        raise ToolError(f"An entry has at most {ENTRY_CHARS} characters, and this one {len(text)}. Write less.")
    return text
