"""Checks whether a text that the agent can read shows a task's truth."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SHORTEST = 4
"""Minimum length of a text that counts: shorter ones, such as "yes" or "12", occur in prompts by chance."""


def shown_truth(truth: Any, text: str, *, public: Sequence[str] = ()) -> str | None:
    """Return the first part of a truth found in a text; None if there is none.

    A part is a value of the truth; a list counts as one part, found only if every item is. Case and white space are
    ignored, and a part only counts between word boundaries.

    Args:
        public: keys of the truth that the agent may know.
    """
    folded = _fold(text)
    for part in _parts(truth, public):
        folded_items = [_fold(item) for item in part]
        if max(map(len, folded_items), default=0) >= SHORTEST and all(_holds(folded, item) for item in folded_items):
            return " | ".join(part)
    return None


def _parts(truth: Any, public: Sequence[str]) -> Iterator[list[str]]:
    if isinstance(truth, Mapping):
        for key, value in truth.items():
            if key not in public:
                yield from _parts(value, public)
    elif isinstance(truth, (list, tuple, set, frozenset)):
        leaves = [leaf for item in truth for part in _parts(item, public) for leaf in part]
        if leaves:
            yield leaves
    elif truth is not None and not isinstance(truth, bool):
        yield [str(truth)]


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def _holds(text: str, part: str) -> bool:
    if not part:
        return True
    if part not in text:  # true for nearly every part, and much faster than a pattern
        return False
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) is not None
