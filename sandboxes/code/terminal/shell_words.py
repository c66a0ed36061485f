"""Variables and quotes in the words of a Dockerfile's instructions, as Docker's builder reads them.

Source: docs.docker.com/reference/dockerfile, section "Environment replacement".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

NAME = re.compile(r"\d+|[@*#?\-$!0]|\w+")
PATTERN_CHARACTERS = re.compile(r"\\[}/]|\\.|.", re.DOTALL)
MAX_DEPTH = 40
MAX_PATTERN, MAX_MATCHED = 200, 4_000


def expanded(text: str, variables: Mapping[str, str], *, escape: str = "\\", quotes: bool = True) -> str:
    """Return a text with its variables replaced by their values, and without its quotes and escapes.

    `$X`, `${X}`, `${X:-default}`, `${X:+other}`, `${X:?message}` (each also without the colon), `${X#pattern}`,
    `${X%pattern}` (both also doubled) and `${X/pattern/other}` are known. An unset variable is empty.

    Args:
        escape: the character that takes the meaning from the next one.
        quotes: whether quotes are removed, as in an instruction; heredocs keep theirs.
    Raises: ValueError for a quote or brace that is not closed, or an unknown kind of replacement.
    """
    return _Reader(text, variables, escape, quotes).read()


def quoted_words(text: str, *, escape: str = "\\") -> list[str]:
    """Return the words of a text, split at white space outside quotes. Quotes and escapes stay in the words."""
    e = re.escape(escape)
    words = re.compile(rf"(?:{e}.|'[^']*(?:'|$)|\"(?:{e}.|[^\"{e}])*(?:\"|{e}?$)|[^\s'\"{e}])+", re.DOTALL)
    return words.findall(text)


class _Reader:
    """Reads one text from left to right."""

    def __init__(self, text: str, variables: Mapping[str, str], escape: str, quotes: bool) -> None:
        self._text, self._variables, self._escape, self._quotes = text, variables, escape, quotes
        self._at = self._depth = 0

    def read(self, stop: str = "", *, raw: bool = False) -> str:
        """Return the expanded text up to `stop`, which is read too. `raw`: escapes stay as they are written."""
        pieces: list[str] = []
        while self._at < len(self._text):
            character = self._next()
            if character == stop:
                return "".join(pieces)
            if character == "$":
                character = self._variable()
            elif character == "'" and self._quotes:
                character = self._until_quote()
            elif character == '"' and self._quotes:
                character = self._double_quoted(raw)
            elif character == self._escape:
                character = (character if raw else "") + self._next()
            pieces.append(character)
        if stop:
            raise ValueError(f"{self._text!r} lacks a closing {stop}")
        return "".join(pieces)

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1 : self._at]

    def _until_quote(self) -> str:
        end = self._text.find("'", self._at)
        if end < 0:
            raise ValueError(f"{self._text!r} lacks a closing '")
        inside, self._at = self._text[self._at : end], end + 1
        return inside

    def _double_quoted(self, raw: bool) -> str:
        pieces: list[str] = []
        while character := self._next():
            if character == '"':
                return "".join(pieces)
            if character == "$":
                character = self._variable()
            elif character == self._escape:
                following = self._text[self._at : self._at + 1]
                if following in ('"', "$", self._escape) and following:
                    character = (character if raw else "") + self._next()
            pieces.append(character)
        raise ValueError(f'{self._text!r} lacks a closing "')

    def _name(self) -> str:
        match = NAME.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]

    def _variable(self) -> str:
        """Return the value of the variable whose $ has just been read."""
        if self._text[self._at : self._at + 1] != "{":
            name = self._name()
            return self._variables.get(name, "") if name else "$"
        self._at += 1
        name = self._name()
        if not name:
            raise ValueError(f"{self._text!r} has a variable without a name")
        value, operator = self._variables.get(name), self._next()
        if operator == "}":
            return value or ""
        is_unset = value is None
        if operator == ":":
            operator = self._next()
            is_unset = not value
            if operator not in ("-", "+", "?"):
                raise ValueError(f"{self._text!r} has a ${{{name}:{operator}, which Docker does not know either")
        if operator not in ("-", "+", "?", "#", "%", "/"):
            raise ValueError(f"{self._text!r} has a ${{{name}{operator}, which Docker does not know either")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError(f"{self._text[:60]!r} has more than {MAX_DEPTH} variables inside each other")
        result = self._replaced(name, value or "", operator, is_unset)
        self._depth -= 1
        return result

    def _replaced(self, name: str, value: str, operator: str, is_unset: bool) -> str:
        if operator in "/#%" and len(value) > MAX_MATCHED:
            raise ValueError(f"{name} has more than {MAX_MATCHED} characters, too many for a pattern")
        if operator == "/":
            every = self._text[self._at : self._at + 1] == "/"
            self._at += every
            pattern, other = self.read("/", raw=True), self.read("}", raw=True)
            return re.sub(_regular(pattern, greedy=True), lambda _: other, value, count=0 if every else 1)
        word = self.read("}", raw=operator in "#%")
        if operator == "-":
            return word if is_unset else value
        if operator == "+":
            return "" if is_unset else word
        if operator == "?":
            if is_unset:
                raise ValueError(f"{name} is not set: {word or 'it must be'}")
            return value
        greedy = word[:1] == operator
        pattern = _regular(word[1:] if greedy else word, greedy=greedy or operator == "%")
        if operator == "#":
            return re.sub(rf"\A(?:{pattern})", "", value, count=1)
        starts = range(len(value) + 1) if greedy else range(len(value), -1, -1)
        return next((value[:start] for start in starts if re.fullmatch(pattern, value[start:], re.DOTALL)), value)


def _regular(pattern: str, *, greedy: bool) -> str:
    """Return the regular expression of a shell pattern with ? and one *, which is matched in bounded time."""
    pieces = []
    if pattern.count("*") > 1 or len(pattern) > MAX_PATTERN:
        raise ValueError(f"the pattern {pattern[:60]!r} has more than one * or {MAX_PATTERN} characters")
    for character in PATTERN_CHARACTERS.findall(pattern):
        if character == "*":
            pieces.append("(?s:.*)" if greedy else "(?s:.*?)")
        else:
            pieces.append("(?s:.)" if character == "?" else re.escape(character[-1]))
    return "".join(pieces)
