"""Text to index terms: lower case, accents folded, stop words dropped, plural endings cut."""

from __future__ import annotations

import re
import unicodedata

ANALYSIS = "words-1"
"""Goes into every index's address: change it whenever a text would give other terms."""

_WORD = re.compile(r"[^\W_]+")
_STOP = (
    "a an and are as at be been but by did do does for from had has have he her his how if in into is it its no "
    "not of on or s she such t that the their them then there these they this to was were what when where which "
    "who whom whose why will with"
)
STOP_WORDS = frozenset(_STOP.split())


def words(text: str) -> list[str]:
    """Return the index terms of a text, in order, repeated as often as they occur."""
    text = text.lower()
    if not text.isascii():
        text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return [_singular(word) for word in _WORD.findall(text) if word not in STOP_WORDS]


def _singular(word: str) -> str:
    """Return the S-stemmer: cuts plural endings only.

    Source: Harman 1991, "How effective is suffixing?", JASIS 42(1).
    """
    if len(word) < 4 or word[-1] != "s":
        return word
    if word.endswith("ies"):
        return word if word[-4] in "ae" else word[:-3] + "y"
    if word.endswith("es"):
        return word if word[-3] in "aeo" else word[:-1]
    return word if word[-2] in "us" else word[:-1]
