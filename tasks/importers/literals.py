"""Parse values in the syntax of C++, Go, Java, JavaScript and Rust, such as `vec![1, 2]` and `new int[]{1, 2}`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

_COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|//[^\n]*|/\*.*?\*/""", re.DOTALL)
_NUMBER = re.compile(r"-?\s*(?:\d[\d_]*\.?[\d_]*|\.\d+)(?:[eE][-+]?\d+)?")
_SUFFIX = re.compile(r"(?:[fFdD]|[uU]?[lL]{0,2}|_?[fiu](?:8|16|32|64|size))(?![\w.])")
_STRING = re.compile(r""""((?:\\.|[^"\\\n])*)"|'((?:\\.|[^'\\\n])*)'""")
_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"', "'": "'", "/": "/"}
_GENERIC = r"(?:<(?:[^<>()]|<(?:[^<>()]|<[^<>()]*>)*>)*>)"
_CAST = re.compile(rf"\((?:std::)?(?:float|double|int|long|bool|short|size_t|string){_GENERIC}?\)\s*(?=[^\s).,;])")
_NAME = re.compile(r"(?:new\s+)?[A-Za-z_][\w.:]*!?")
_WORDS = {
    **dict.fromkeys(("true", "True"), True),
    **dict.fromkeys(("false", "False"), False),
    **dict.fromkeys(("null", "nil", "None", "undefined", "std::nullopt", "nullopt", "Optional.empty()"), None),
}
_WRAPPERS = {"Some", "Optional.of", "String::from", "std::string", "string", "std::optional", "String.valueOf"}
_LISTS = {"Arrays.asList", "List.of", "vec!"}
_CONTAINERS = re.compile(r"(?:std::)?(?:vector|map|unordered_map)$|new (?:Array|Linked)List$|new (?:Linked)?HashMap$")
_OPENS = {"(": ")", "[": "]", "{": "}"}


class NoLiteral(ValueError):
    """The text is not a readable value."""


def without_comments(text: str) -> str:
    """Return the program without `//` and `/* */` comments, keeping quoted text."""
    return _COMMENT.sub(lambda match: match.group(1) or " ", text)


class Literals:
    """Reads values and patterns from a position in a program, skipping spaces.

    A list becomes a list; an object or a map of Go a dict; any other map a list of [key, value]; null and the like
    None.
    """

    def __init__(self, text: str, position: int = 0) -> None:
        self.text, self.position = text, position

    def mark(self, pattern: str) -> re.Match[str] | None:
        """Consume a pattern and return its match; return None if it does not match here."""
        match = re.compile(rf"\s*(?:{pattern})").match(self.text, self.position)
        if match:
            self.position = match.end()
        return match

    def expect(self, pattern: str) -> None:
        """Consume a pattern. Raises: NoLiteral if it does not match here."""
        if not self.mark(pattern):
            self.fail()

    def fail(self) -> NoReturn:
        """Reject the text. Raises: NoLiteral, quoting what comes next."""
        excerpt = " ".join(self.text[self.position : self.position + 80].split())
        raise NoLiteral(f"{excerpt[:40]!r} is not a plain value or comparison")

    def several(self, closing: str, read: Callable[[], Any] | None = None) -> list[Any]:
        """Return comma-separated values up to a closing bracket, which is consumed. Raises: NoLiteral."""
        items: list[Any] = []
        while not self.mark(re.escape(closing)):
            items.append((read or self.value)())
            if not self.mark(","):
                self.expect(re.escape(closing))
                break
        return items

    def value(self) -> Any:
        """Return the next value. Raises: NoLiteral."""
        self.mark("&")
        while self.text.startswith("(", self._next()) and (cast := _CAST.match(self.text, self._next())):
            self.position = cast.end()
        start = self._next()
        if self.mark(r"\("):
            value = self.value()
            self.expect(r"\)")
            return value
        if number := _NUMBER.match(self.text, start):
            return self._number(number)
        if self.text[start : start + 1] in ('"', "'"):
            return self._string(start)
        if self.mark(r"\[\]\s*(?=[\w\[*])|map\["):  # a type of Go
            return self._go_composite()
        for opening in "[{":
            if self.mark(re.escape(opening)):
                return self._items(_OPENS[opening])
        return self._named(start)

    def _next(self) -> int:
        match = re.compile(r"\s*").match(self.text, self.position)
        return match.end() if match else self.position

    def _number(self, match: re.Match[str]) -> int | float:
        self.position = match.end()
        if suffix := _SUFFIX.match(self.text, self.position):
            self.position = suffix.end()
        if self.position < len(self.text) and (self.text[self.position].isalnum() or self.text[self.position] == "_"):
            self.fail()
        digits = re.sub(r"[\s_]", "", match.group())
        if re.fullmatch(r"-?0\d+", digits):  # octal in some languages
            self.fail()
        return int(digits) if re.fullmatch(r"-?\d+", digits) else float(digits)

    def _string(self, start: int) -> str:
        match = _STRING.match(self.text, start)
        if not match:
            self.fail()
        self.position = match.end()
        text = _ESCAPE.sub(self._unescaped, match.group(1) if match.group(1) is not None else match.group(2))
        self.mark(r"\.(?:to_string|to_owned|into)\(\)")
        return text

    def _unescaped(self, match: re.Match[str]) -> str:
        code = match.group(1)
        if code[0] in "ux" and len(code) > 1:
            return chr(int(code[1:].strip("{}"), 16))
        if code not in _ESCAPED:
            self.fail()
        return _ESCAPED[code]

    def _items(self, closing: str) -> Any:
        """Return the content of brackets: a list, or a dict if its first item is followed by a colon."""
        before = self.position
        is_keyed = closing == "}" and (self.mark(r"[A-Za-z_]\w*\s*:(?!:)") is not None or self._is_keyed())
        self.position = before
        return dict(self.several(closing, self._entry)) if is_keyed else self.several(closing)

    def _is_keyed(self) -> bool:
        try:
            self.value()
        except NoLiteral:
            return False
        return self.mark(":") is not None

    def _entry(self) -> tuple[Any, Any]:
        name = self.mark(r"[A-Za-z_]\w*(?=\s*:(?!:))")
        key = name.group().strip() if name else self.value()
        self.expect(":")
        if not isinstance(key, str | int):
            self.fail()
        return key, self.value()

    def _go_composite(self) -> Any:
        """Return the content of the braces after a Go slice or map type, such as []int or map[string]int."""
        start = self.position
        opening = self.text.find("{", start)
        kind = self.text[start:opening].strip() if opening >= 0 else ""
        if not re.fullmatch(r"[\w\[\]*]+", kind):
            self.fail()
        self.position = opening + 1
        return self._items("}")

    def _named(self, start: int) -> Any:
        """Return a value that begins with a word: a constant, a constructor, a macro."""
        for word, value in _WORDS.items():
            if self.mark(re.escape(word) + r"(?!\w)"):
                return value
        name = _NAME.match(self.text, start)
        if not name:
            self.fail()
        self.position = name.end()
        word = re.sub(r"\s+", " ", name.group().removesuffix("::"))
        if word.endswith("::new") or self.mark(rf"{_GENERIC}::new"):
            self.expect(r"\(\s*\)")
            return "" if word == "String::new" else []
        self.mark(_GENERIC)
        if word.startswith("new ") and self.mark(r"(?:\[\s*\])+(?=\s*\{)"):  # an array of Java, such as new int[]{1}
            self.expect(r"\{")
            return self.several("}")
        return self._constructed(word, start)

    def _pair(self) -> list[Any]:
        self.expect(r"\(")
        return self.several(")")

    def _constructed(self, word: str, start: int) -> Any:
        if word == "HashMap::from":
            self.expect(r"\(\s*\[")
            pairs = self.several("]", self._pair)
            self.expect(r"\)")
            return pairs
        known = word in {"Map.of", *_LISTS, *_WRAPPERS} or _CONTAINERS.match(word)
        opening = self.mark(r"[(\[{]") if known else None
        if not opening:
            self.position = start
            self.fail()
        items = self.several(_OPENS[opening.group().strip()])
        if word == "Map.of":
            return [[key, value] for key, value in zip(items[::2], items[1::2], strict=True)]
        if word in _LISTS:
            return items
        if _CONTAINERS.match(word):
            return items if opening.group().strip() == "{" else (items[0] if items else [])
        if len(items) != 1:
            self.position = start
            self.fail()
        return items[0]
