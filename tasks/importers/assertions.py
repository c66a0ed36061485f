"""Turn test programs in C++, Go, Java, JavaScript and Rust that compare calls with values into calls for
`hidden_calls`.

A test program is never run, because the submission could stop or patch a program that runs with it. A test that cannot
be converted completely is refused, with the reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .literals import Literals, NoLiteral, without_comments

PAIRS = {
    "cpp": r"(?!)",
    "go": r"\bassert\.(?:Equal|InDelta)\s*\(|\{\s*actual:\s*(?=\w)",
    "java": r"(?!)",
    "javascript": r"\bassert\.(?:deepEqual|equal|strictEqual|deepStrictEqual)\s*\(",
    "rust": r"\bassert_eq!\s*\(",
}
"""Patterns, by language, of the beginning of an assertion whose arguments are a call and a value."""
CLAIMS = {
    "cpp": r"\bassert\s*\(",
    "go": r"(?!)",
    "java": r"\bassert\s*\(|\bList<Boolean>\s+correct\s*=\s*Arrays\.asList\s*\(",
    "javascript": r"\bconsole\.assert\s*\(|\bassert\s*\(",
    "rust": r"\bassert!\s*\(",
}
"""Patterns, by language, of the beginning of an assertion whose arguments are comparisons."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """A call and the value that it must return, within `tolerance` if that is not 0."""

    arguments: list[Any]
    value: Any
    tolerance: float = 0.0


def assertions_of(language: str, test: str, function: str) -> list[Assertion]:
    """Return every assertion of a test, in order.

    Args:
        language: "cpp", "go", "java", "javascript" or "rust". function: the name of the tested function.
    Raises: NoLiteral if a call of this function occurs outside a comparison with a plain value.
    """
    text = without_comments(test)
    call = rf"(?<!\w)(?:candidate|(?:\w+\.)?{re.escape(function)})\s*\("
    openings = re.compile(f"(?P<pair>{PAIRS[language]})|(?P<claim>{CLAIMS[language]})")
    assertions: list[Assertion] = []
    reader = _Assertions(text, call)
    while opening := openings.search(text, reader.position):
        reader.position = opening.end()
        if opening["pair"]:
            assertions.append(reader.pair("}" if "actual" in opening["pair"] else ")"))
        else:
            assertions += reader.claims()
    calls = len(re.findall(call, text))
    if not assertions or calls != len(assertions):
        raise NoLiteral(f"only {len(assertions)} of its {calls} calls are compared with plain values")
    return assertions


class _Assertions(Literals):
    """Reads the assertions of a test program.

    `call` is the pattern of the beginning of a call of the tested function, including the opening bracket.
    """

    def __init__(self, text: str, call: str) -> None:
        super().__init__(text)
        self.call = call

    def pair(self, closing: str) -> Assertion:
        """Read a call and a value in either order, with an optional tolerance or message."""
        arguments = self._arguments()
        value = None if arguments is not None else self.value()
        self.expect(r",(?:\s*expected:)?")
        if arguments is None:
            arguments = self._called()
        else:
            value = self.value()
        rest: list[Any] = []
        if self.mark(","):
            rest = self.several(closing)
        else:
            self.expect(re.escape(closing))
        return Assertion(arguments, value, next((part for part in rest if isinstance(part, float)), 0.0))

    def claims(self) -> list[Assertion]:
        """Read comma-separated comparisons up to the closing bracket, skipping messages."""
        claims = [self._claim()]
        while self.mark(r",(?!\s*[\"'])"):
            claims.append(self._claim())
        if self.mark(","):
            self.value()
        self.expect(r"\)")
        return claims

    def _claim(self) -> Assertion:
        if self.mark(r"(?:issame|Objects\.equals)\s*\("):
            return self.pair(")")
        if self.mark(r"(?:Math\.|std::)?f?abs\s*\("):
            arguments = self._called()
            self.expect("-")
            value = self.value()
            self.expect(r"\)\s*<=?")
            return Assertion(arguments, value, float(self.value()))
        if self.mark(r"JSON\.stringify\s*\("):
            return self._stringified()
        if self.mark(r"!(?!=)"):
            return Assertion(self._called(), False)
        return self._compared()

    def _stringified(self) -> Assertion:
        arguments = self._called()
        self.expect(r"\)\s*={2,3}\s*JSON\.stringify\s*\(")
        value = self.value()
        self.expect(r"\)")
        return Assertion(arguments, value)

    def _compared(self) -> Assertion:
        arguments = self._called()
        if self.mark("={2,3}"):
            return Assertion(arguments, self.value())
        if self.mark(r"\.equals\s*\("):
            value = self.value()
            self.expect(r"\)")
            return Assertion(arguments, value)
        return Assertion(arguments, True)

    def _called(self) -> list[Any]:
        arguments = self._arguments()
        if arguments is None:
            self.fail()
        return arguments

    def _arguments(self) -> list[Any] | None:
        """Return the arguments of a call at this position; None if there is no call."""
        start = self.position
        bracketed = self.mark(r"\((?=\s*(?:candidate|\w))") is not None and self.mark(rf"(?={self.call})") is not None
        if not bracketed:
            self.position = start
        if not self.mark(self.call):
            return None
        arguments = self.several(")")
        if bracketed:
            self.expect(r"\)")
        return arguments
