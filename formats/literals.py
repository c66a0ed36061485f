"""Values as Python, JSON and Gemma write them, read from hostile text in linear time and without `eval`."""

from __future__ import annotations

import math
import re
from typing import Any

from agentgym.policy import formats

MAX_DEPTH = 32
_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"-?\d{1,400}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,4})?(?![\w.])")
_WORD = re.compile(r"[A-Za-z]{1,8}(?!\w)")
_BARE_KEY = re.compile(r"[\w.$@-]{1,300}")
_WORDS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
_QUOTED = {
    "'": re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL),
    '"': re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL),
}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
_SURROGATES = re.compile(r"[\ud800-\udfff]")


class LiteralReader:
    """Reads values one after another. `at` is the current position.

    Args:
        delimiter: the delimiter of strings, which have no escapes; by default quotes of either kind, with escapes.

    Every method raises Malformed if the text is not as expected, except `skip`.
    """

    def __init__(self, text: str, at: int, *, delimiter: str | None = None) -> None:
        self.text, self.at, self._delimiter = text, at, delimiter

    def skip(self, expected: str) -> bool:
        """Return whether this text comes next, after white space; if so, move past it."""
        self.at = self._after_space()
        if not self.text.startswith(expected, self.at):
            return False
        self.at += len(expected)
        return True

    def expect(self, expected: str) -> None:
        """Move past this text, which must come next."""
        if not self.skip(expected):
            near = formats.excerpt(self.text[self.at : self.at + 30], 30)
            raise formats.Malformed(f"The call has {near} where {expected} was expected.")

    def match(self, pattern: re.Pattern[str], what: str) -> str:
        """Return the text that a pattern matches here, after white space. `what`: names it in the error."""
        self.at = self._after_space()
        matched = pattern.match(self.text, self.at)
        if matched is None:
            near = formats.excerpt(self.text[self.at : self.at + 30], 30)
            raise formats.Malformed(f"The call has {near} where {what} was expected.")
        self.at = matched.end()
        return matched[matched.lastindex or 0]

    def value(self, depth: int = 0) -> Any:
        """Return a string, number, truth value, None, list or mapping."""
        if depth > MAX_DEPTH:
            raise formats.Malformed("The call is not usable: brackets are nested too deeply.")
        if self.skip("["):
            return self._items(depth)
        if self.skip("{"):
            return self.mapping("}", ":", depth + 1)
        if self._at_string():
            return self._string()
        if matched := _NUMBER.match(self.text, self.at):
            self.at = matched.end()
            return _number(matched.group())
        word = self.match(_WORD, "a value")
        if word not in _WORDS:
            raise formats.Malformed(f"The call has the word {word}, which is not a value. Put texts into quotes.")
        return _WORDS[word]

    def mapping(self, closing: str, separator: str, depth: int = 0) -> dict[str, Any]:
        """Return keys and values up to `closing`, with `separator` between key and value; keys may be unquoted."""
        values = dict[str, Any]()
        while not self.skip(closing):
            if values:
                self.expect(",")
            self.at = self._after_space()
            key = self._string() if self._at_string() else self.match(_BARE_KEY, "the name of an argument")
            self.expect(separator)
            if key in values:
                raise formats.Malformed(f"The argument {formats.excerpt(key, 30)} is given twice.")
            values[key] = self.value(depth)
        return values

    def _items(self, depth: int) -> list[Any]:
        items = list[Any]()
        while not self.skip("]"):
            if items:
                self.expect(",")
            items.append(self.value(depth + 1))
        return items

    def _at_string(self) -> bool:
        return self.text.startswith(self._delimiter or ("'", '"'), self.at)

    def _string(self) -> str:
        if self._delimiter is None:
            written = self.match(_QUOTED[self.text[self.at]], "the end of a text in quotes")
            text = _ESCAPE.sub(_unescaped, written)
        else:
            begin = self.at + len(self._delimiter)
            end = self.text.find(self._delimiter, begin)
            if end < 0:
                raise formats.Malformed(
                    f"A text is not closed: {self._delimiter} is missing after {formats.excerpt(self.text[begin:])}."
                )
            self.at, text = end + len(self._delimiter), self.text[begin:end]
        if _SURROGATES.search(text):
            raise formats.Malformed(
                "The call contains half of a surrogate pair (\\ud800-\\udfff), which is not a character."
            )
        return text

    def _after_space(self) -> int:
        space = _SPACE.match(self.text, self.at)
        return space.end() if space else self.at


def _unescaped(escape: re.Match[str]) -> str:
    text = escape[1]
    if len(text) > 1:
        return chr(int(text[1:], 16))
    return _ESCAPED.get(text, text if text in "\\'\"/" else "\\" + text)


def _number(text: str) -> int | float:
    if text.lstrip("-").isdigit():
        return int(text)
    value = float(text)
    if not math.isfinite(value):
        raise formats.Malformed(f"The number {formats.excerpt(text, 20)} is too large.")
    return value
