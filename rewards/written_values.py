"""Reads values that a call gives as texts in Java or JavaScript, such as `new int[]{1, 2}` or `{limit: 50}`."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
WORD = re.compile(r"[^,;(){}\[\]:\"'`]+")
JAVA_LIST = re.compile(
    r"new\s+[\w.]+(<[^()]*>)?\s*\[\s*\]\s*(?=\{)|(new\s+ArrayList\s*(<[^()]*>)?\s*\(\s*)?(Arrays\.asList|List\.of)\s*(?=\()"
)
JAVA_FILLED = re.compile(r"new\s+(ArrayList|HashMap)\s*(<[^()]*>)?\s*\(\s*\)\s*")
JAVA_PUT = re.compile(r"\s*(?:this\.)?(?:put|add)\s*(?=\()")
JS_ARRAY = re.compile(r"new\s+Array\s*(?=\()")
CLOSING = {"{": "}", "(": ")", "[": "]"}
MAX_DEPTH, MAX_CHARACTERS = 20, 20_000
SUFFIXES = {"float": "fF", "long": "lL", "Bigint": "n"}
"""The letter that a number of a type must end with."""


def java_value(text: str, kind: str, items: str | None) -> Any:
    """Return the value that a text has as a Java expression of a type.

    A text that is not of the type is returned as it is: the comparison takes it as the name of a variable.

    Args:
        kind: the type as BFCL names it, such as `long`, `Array` or `HashMap`.
        items: the type of a list's items.
    """
    if kind in ("Array", "ArrayList", "HashMap"):
        return _read(text, _JavaReader, dict if kind == "HashMap" else list, items)
    return _plain(text, kind)


def javascript_value(text: str, kind: str, items: str | None) -> Any:
    """Return the value that a text has as a JavaScript expression of a type; the arguments are as in `java_value`."""
    if kind in ("array", "dict"):
        return _read(text, _JavaScriptReader, dict if kind == "dict" else list, items)
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if kind == "String" and quoted else _plain(text, kind)


def _plain(text: str, kind: str) -> Any:
    if kind in ("boolean", "Boolean"):
        return text == "true" if text in ("true", "false") else text
    if kind in ("byte", "short", "integer", "long", "Bigint", "float", "double"):
        return _number(text, kind)
    return text


def _number(text: str, kind: str) -> Any:
    suffix = SUFFIXES.get(kind, "")
    if kind == "float" and text[-1:] not in ("f", "F"):
        suffix = ""
    digits = text[:-1] if suffix and text[-1:] and text[-1] in suffix else text
    if NUMBER.fullmatch(digits) is None or len(digits) > 400 or (suffix and digits == text):
        return text
    if kind in ("float", "double"):
        return float(digits)
    return int(digits) if re.fullmatch(r"-?\d+", digits) else text


def _read(text: str, reader: Callable[[str, str | None], _Reader], expected: type, items: str | None) -> Any:
    """Return the list or dict that a text is; the text itself if it is another thing, or more."""
    if len(text) > MAX_CHARACTERS:
        return text
    reading = reader(text, items)
    try:
        value = reading.value(0)
    except (ValueError, IndexError):
        return text
    return value if type(value) is expected and reading.is_at_end() else text


class _Reader(ABC):
    """Reads an expression from left to right. A subclass knows the language's lists and maps."""

    def __init__(self, text: str, items: str | None) -> None:
        self._text, self._items = text, items
        self._at = 0

    def is_at_end(self) -> bool:
        return not self._text[self._at :].strip(" \n\t);}")

    def value(self, depth: int) -> Any:
        """Return the value at the current position. Raises: ValueError or IndexError for a text that is cut off."""
        if depth > MAX_DEPTH:
            raise ValueError("the value is nested too deeply")
        self._skip()
        return self._collection(depth) if self._opens() else self._simple()

    @abstractmethod
    def _opens(self) -> bool:
        """Return whether a list or map begins at the current position."""

    @abstractmethod
    def _collection(self, depth: int) -> Any:
        """Return the list or map at the current position."""

    def _accept(self, character: str) -> bool:
        """Read a character if it is the next one that is not white space. Raises: IndexError at the end."""
        self._skip()
        is_next = self._text[self._at] == character
        self._at += is_next
        return is_next

    def _skip(self) -> None:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        if match := pattern.match(self._text, self._at):
            self._at = match.end()
        return match

    def _list(self, depth: int) -> list[Any]:
        """Return the values between the bracket at the current position and the one that closes it."""
        closing = CLOSING[self._text[self._at]]
        self._at += 1
        values: list[Any] = []
        while not self._accept(closing):
            values.append(self.value(depth + 1))
            if not self._accept(",") and self._text[self._at] != closing:
                raise ValueError("a comma is missing")
        return values

    def _simple(self) -> Any:
        quote = self._text[self._at]
        if quote in "\"'`":
            end = self._at + 1
            while self._text[end] != quote:
                end += 1 + (self._text[end] == "\\")
            text, self._at = self._text[self._at + 1 : end], end + 1
            return re.sub(r"\\(.)", r"\1", text)
        word = self._take(WORD)
        if word is None:
            raise ValueError("a value is missing")
        text = word[0].strip()
        while self._text[self._at : self._at + 1] == "(":  # a call or such, which is the name of something
            start = self._at
            self._list(0)
            text += self._text[start : self._at]
        for kind in (self._items, "boolean", "integer", "double", "long", "float", "Bigint"):
            if kind and (value := _plain(text, kind)) != text:
                return value
        return text


class _JavaReader(_Reader):
    def _opens(self) -> bool:
        return bool(JAVA_LIST.match(self._text, self._at) or JAVA_FILLED.match(self._text, self._at))

    def _collection(self, depth: int) -> Any:
        if self._take(JAVA_LIST):
            values = self._list(depth)
            self._take(re.compile(r"\s*\)"))  # of new ArrayList<>(Arrays.asList(..))
            return values
        filled = self._take(JAVA_FILLED)
        rows: list[list[Any]] = []
        braces = self._take(re.compile(r"\{\s*\{?"))
        while braces and self._take(JAVA_PUT):
            rows.append(self._list(depth))
            self._take(re.compile(r"\s*;"))
        if braces:
            self._take(re.compile(r"\s*\}\s*\}?"))
        if filled is not None and filled[1] == "HashMap":
            return {str(key): value for key, value in rows}
        return [value for (value,) in rows]


class _JavaScriptReader(_Reader):
    def _opens(self) -> bool:
        return self._text[self._at : self._at + 1] in ("[", "{") or JS_ARRAY.match(self._text, self._at) is not None

    def _collection(self, depth: int) -> Any:
        self._take(JS_ARRAY)
        if not self._accept("{"):
            return self._list(depth)
        entries: dict[str, Any] = {}
        while not self._accept("}"):
            key = str(self._simple())
            entries[key] = self.value(depth + 1) if self._accept(":") else key  # {name} is {name: name}
            self._accept(",")
        return entries
