"""Converts text to index terms: lower case, accents folded, stop words dropped, plural endings cut."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

ANALYSIS = "words-2"
"""Part of every index's path: change it whenever a text would yield different terms."""

_WORD = re.compile(r"[^\W_]+")
# Scripts that put no spaces between words: Thai, Lao, Burmese, Khmer; kana; Han characters.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_STOP = (
    "a an and are as at be been but by did do does for from had has have he her his how if in into is it its no "
    "not of on or s she such t that the their them then there these they this to was were what when where which "
    "who whom whose why will with"
)
STOP_WORDS = frozenset(_STOP.split())


def words(text: str) -> list[str]:
    """Return the index terms of a text, in order, with repetitions."""
    text = text.lower()
    if not text.isascii():
        text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    if text.isascii():
        return [_singular(word) for word in _WORD.findall(text) if word not in STOP_WORDS]
    return [term for word in _WORD.findall(text) for term in _terms_of(word)]


def _terms_of(word: str) -> Iterator[str]:
    """Yield the terms of a run of letters. In scripts without spaces: its characters, and the pairs of neighbours."""
    end = 0
    for run in _UNSPACED.finditer(word):
        yield from _spaced_terms(word[end : run.start()])
        characters, end = run[0], run.end()
        yield from characters
        yield from (characters[at : at + 2] for at in range(len(characters) - 1))
    yield from _spaced_terms(word[end:])


def _spaced_terms(word: str) -> Iterator[str]:
    if word and word not in STOP_WORDS:
        yield _singular(word)


def _singular(word: str) -> str:
    """Remove a plural ending, and no other ending (the S-stemmer).

    Source: Harman 1991, "How effective is suffixing?", JASIS 42(1).
    """
    if len(word) < 4 or word[-1] != "s":
        return word
    if word.endswith("ies"):
        return word if word[-4] in "ae" else word[:-3] + "y"
    if word.endswith("es"):
        return word if word[-3] in "aeo" else word[:-1]
    return word if word[-2] in "us" else word[:-1]
