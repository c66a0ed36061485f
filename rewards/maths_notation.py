"""Parse a mathematical answer, in LaTeX or plain notation, into a tree of tuples. Nothing is evaluated.

The parser is our own because the answer may be hostile: library parsers call `eval`. Length and depth are bounded, and
any unknown token makes the whole text unreadable (NoMaths).
"""

# ruff: noqa: SIM905 - lists of words are read as words

from __future__ import annotations

import re
from typing import Any

Tree = tuple[Any, ...]
"""("num", text), ("sym", name), ("const", name), ("fn", name, *trees), (operator, *trees), ("set", ...), ..."""

MAX_CHARS, MAX_DEPTH = 600, 40
FUNCTIONS = frozenset(
    """
    sin cos tan cot sec csc arcsin arccos arctan asin acos atan sinh cosh tanh ln log exp sqrt abs
    """.split()
)
CONSTANTS = {
    "pi": "pi",
    "\u03c0": "pi",
    "e": "e",
    "i": "i",
    "infty": "inf",
    "infinity": "inf",
    "inf": "inf",
    "oo": "inf",
    "∞": "inf",
}
GREEK = frozenset(
    """
    alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi rho sigma tau phi varphi chi psi
    omega Gamma Delta Theta Lambda Sigma Phi Psi Omega
    """.split()
)
RELATIONS = {
    "=": "=",
    "<": "<",
    ">": ">",
    "le": "<=",
    "leq": "<=",
    "ge": ">=",
    "geq": ">=",
    "≤": "<=",
    "≥": ">=",
    "<=": "<=",
    ">=": ">=",
    "ne": "!=",
    "neq": "!=",
    "≠": "!=",
}
_OPERATORS = {
    "cdot": "*",
    "times": "*",
    "div": "/",
    "·": "*",
    "\u00d7": "*",
    "÷": "/",
    "\u2212": "-",
    "\u2013": "-",
    "**": "^",
    "ast": "*",
    "pm": "±",
    "\u222a": "cup",
    "√": "sqrt",
}
_TEXT = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}")
_NOISE = re.compile(
    r"\\left(?![a-z])|\\right(?![a-z])|\\displaystyle|(?<!\\)\\[,;:!> ]|~|\\\$|\$|\\\(|\\\)|\\\[|\\\]|\\quad|\\%|%"
)
_MATRIX = re.compile(r"\\(begin|end)\s*\{[bpvBV]?matrix\}")
_DEGREES = re.compile(r"\^\s*\{?\s*\\circ\s*\}?|°|\\degree")
_TOKEN = re.compile(
    r"(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3}(?![\d.]))?)|\\(?P<command>[a-zA-Z]+)|(?P<brace>\\[{}])|(?P<row>\\\\)"
    r"|(?P<operator>\*\*|<=|>=|[-+*/^_=<>(){}\[\]|!,;&\u00b7\u00d7\u00f7\u2212\u2013\u00b1\u2264\u2265\u2260\u222a\u221a])|(?P<word>[a-zA-Z\u221e\u03b1-\u03c9]+)|(?P<space>\s+)"
)
_THOUSANDS = re.compile(r"(?<![\d.(\[{,])(\d{1,3}(?:(?:,|\{,\})\d{3})+)(?![\d,])")


class NoMaths(ValueError):
    """The text is not mathematics that this parser knows."""


def read(text: str) -> Tree:
    """The tree of an answer. Raises: NoMaths if it is too long, nested too deeply or has an unknown token."""
    if len(text) > MAX_CHARS:
        raise NoMaths(f"{len(text)} characters are more than {MAX_CHARS}")
    parser = _Parser(_tokens(text))
    try:
        tree = parser.answer()
    except RecursionError as error:
        raise NoMaths("nested too deeply") from error
    if parser.token is not None:
        raise NoMaths(f"unexpected {parser.token!r}")
    return tree


def _tokens(text: str) -> list[str]:
    """Numbers, names with a leading backslash where they are commands, words of letters, and operators."""
    text = _TEXT.sub(lambda m: f" {m[1]} " if m[1].strip() in ("and", "or") else " ", text)
    text = _NOISE.sub(" ", _DEGREES.sub(" ", text)).strip().rstrip(".").strip()
    text = _MATRIX.sub(lambda m: f" \\{m[1]} ", text)
    text = _THOUSANDS.sub(lambda m: re.sub(r"[{},]", "", m[1]), text)
    tokens: list[str] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise NoMaths(f"unknown character {text[position]!r}")
        position = match.end()
        kind, token = str(match.lastgroup), match[0]
        if kind == "word":
            tokens += _words(token)
        elif kind == "command":
            tokens.append(_command(match["command"]))
        elif kind == "space":  # it only matters between two numbers, as in 1 1/2
            tokens += (
                ["\\mixed"] if tokens and tokens[-1][0].isdigit() and text[position : position + 1].isdigit() else []
            )
        else:
            tokens.append(_OPERATORS.get(token, token))
    return tokens


def _command(name: str) -> str:
    name = {"dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "dbinom": "binom", "tbinom": "binom"}.get(name, name)
    return _OPERATORS.get(name) or (RELATIONS[name] if name in RELATIONS else "\\" + name)


def _words(word: str) -> list[str]:
    """Known names as commands, `and` and `or` as a comma, at most two other letters as a product of symbols."""
    if word in ("and", "or"):
        return [","]
    if word in FUNCTIONS or (word.casefold() in CONSTANTS and len(word) > 1) or word in GREEK:
        return ["\\" + (word.casefold() if word.casefold() in CONSTANTS else word)]
    if len(word) > 2:
        for name in sorted((*FUNCTIONS, "pi"), key=len, reverse=True):  # `xsin`, `pir`: rare, and still readable
            if word.endswith(name) and len(word) - len(name) <= 2:
                return [*word[: -len(name)], "\\" + name]
        raise NoMaths(f"{word!r} is a word")
    return list(word)


class _Parser:
    """Recursive descent over tokens: answer > relation > sum > product > power > atom."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0

    @property
    def token(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, *expected: str) -> str | None:
        """Consume and return the next token if it is one of these, else None."""
        if self.token is None or self.token not in expected:
            return None
        self._at += 1
        return self._tokens[self._at - 1]

    def _need(self, expected: str) -> None:
        if self._take(expected) is None:
            raise NoMaths(f"{expected!r} is missing before {self.token!r}")

    def answer(self) -> Tree:
        """One part, or a set of parts separated by commas, as in the solutions `1, 2`."""
        parts = [self._joined()]
        while self._take(",", ";"):
            parts.append(self._joined())
        return parts[0] if len(parts) == 1 else ("set", *parts)

    def _joined(self) -> Tree:
        parts = [self._relation()]
        while self._take("\\cup", "cup"):
            parts.append(self._relation())
        return parts[0] if len(parts) == 1 else ("union", *parts)

    def _relation(self) -> Tree:
        left = self._sum()
        if self._take("\\in", "\\to"):
            return self._sum()  # `x in [1, 2]` gives the value of x
        chain: list[Any] = [left]
        while self.token in RELATIONS.values():
            chain += [self._take(*RELATIONS.values()), self._sum()]
        return left if len(chain) == 1 else ("relation", *chain)

    def _sum(self) -> Tree:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NoMaths("nested too deeply")
        sign = self._take("+", "-", "±")
        tree = self._product()
        tree = ("neg", tree) if sign == "-" else ("pm", ("num", "0"), tree) if sign == "±" else tree
        while operator := self._take("+", "-", "±"):
            tree = ({"+": "add", "-": "sub", "±": "pm"}[operator], tree, self._product())
        self._depth -= 1
        return tree

    def _product(self) -> Tree:
        tree = self._power()
        while True:
            if operator := self._take("*", "/"):
                tree = ("mul" if operator == "*" else "div", tree, self._signed())
            elif self._take("\\mixed"):
                tree = ("add", tree, self._fraction())
            elif tree[0] == "num" and self.token == "\\frac":  # 1\frac{1}{2} is a mixed number, as in schoolbooks
                tree = ("add", tree, self._power())
            elif self._begins_atom():
                tree = ("mul", tree, self._power())
            else:
                return tree

    def _fraction(self) -> Tree:
        numerator = self._power()
        self._need("/")
        return ("div", numerator, self._power())

    def _signed(self) -> Tree:
        sign = self._take("+", "-")
        tree = self._power()
        return ("neg", tree) if sign == "-" else tree

    def _power(self) -> Tree:
        tree = self._atom()
        while self._take("!"):
            tree = ("fact", tree)
        if self._take("^"):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise NoMaths("nested too deeply")
            tree = ("pow", tree, self._group() if self.token == "{" else self._signed())
            self._depth -= 1
        return tree

    def _begins_atom(self) -> bool:
        token = self.token
        if token is None or token in ("\\mixed", "\\cup", "\\in", "\\to", "\\end"):
            return False
        return token in ("(", "[", "{", "\\{") or (token[0] == "\\" and token[-1].isalpha()) or token.isalpha()

    def _group(self) -> Tree:
        self._need("{")
        tree = self._sum()
        self._need("}")
        return tree

    def _argument(self) -> Tree:
        """The argument of \\frac, \\sqrt and others: a group or one token, so that \\frac12 is one half."""
        if self.token == "{":
            return self._group()
        token = self.token
        if token is not None and token.isdigit() and len(token) > 1:
            self._tokens[self._at : self._at + 1] = [token[0], token[1:]]
        return self._atom()

    def _atom(self) -> Tree:
        token = self.token
        if token is None:
            raise NoMaths("it ends too early")
        self._at += 1
        if token[0].isdigit() or token[0] == ".":
            return ("num", token)
        if token in ("(", "[", "\\{", "{"):
            return self._enclosed(token)
        if token == "|":
            tree = self._sum()
            self._need("|")
            return ("fn", "abs", tree)
        if token == "sqrt":
            token = "\\sqrt"
        if token[0] == "\\":
            return self._named(token[1:])
        if token.isalpha():
            return ("const", CONSTANTS[token]) if token in CONSTANTS else ("sym", token + self._subscript())
        raise NoMaths(f"unexpected {token!r}")

    def _named(self, name: str) -> Tree:
        if name in CONSTANTS:
            return ("const", CONSTANTS[name])
        if name in GREEK:
            return ("sym", name + self._subscript())
        if name == "frac":
            return ("div", self._argument(), self._argument())
        if name == "binom":
            return ("binom", self._argument(), self._argument())
        if name == "sqrt" and self._take("["):
            root = self._sum()
            self._need("]")
            return ("pow", self._argument(), ("div", ("num", "1"), root))
        if name == "begin":
            return self._matrix()
        if name in FUNCTIONS:
            return self._function(name)
        raise NoMaths(f"unknown command {name!r}")

    def _function(self, name: str) -> Tree:
        base: Tree | None = None
        if name == "log" and self._take("_"):
            base = self._argument()
        power = self._argument() if self._take("^") else None
        argument = self._argument() if name == "sqrt" or self.token in ("(", "{") else self._power()
        tree: Tree = ("fn", name, argument) if base is None else ("div", ("fn", "ln", argument), ("fn", "ln", base))
        return tree if power is None else ("pow", tree, power)

    def _subscript(self) -> str:
        if not self._take("_"):
            return ""
        if not self._take("{"):
            self._at += 1
            return f"_{self._tokens[self._at - 1]}" if self._at <= len(self._tokens) else ""
        subscript = "_"
        while (token := self.token) is not None and token != "}":
            subscript += token
            self._at += 1
        self._need("}")
        return subscript

    def _enclosed(self, opening: str) -> Tree:
        """A bracketed expression, or a tuple, interval or set."""
        self._depth += 1
        parts = [self._joined()]
        while self._take(",", ";"):
            parts.append(self._joined())
        closing = self.token
        if closing not in (")", "]", "}", "\\}"):
            raise NoMaths(f"{opening!r} is not closed")
        self._at += 1
        self._depth -= 1
        if opening in ("{", "\\{"):
            if closing not in ("}", "\\}"):
                raise NoMaths(f"{opening!r} is closed by {closing!r}")
            return parts[0] if opening == "{" and len(parts) == 1 else ("set", *parts)
        if closing in ("}", "\\}"):
            raise NoMaths(f"{opening!r} is closed by {closing!r}")
        if len(parts) == 1 and (opening, closing) == ("(", ")"):
            return parts[0]
        return ("tuple", opening + closing, *parts)

    def _matrix(self) -> Tree:
        rows: list[Any] = [[self._sum()]]
        while separator := self._take("&", "\\\\"):
            if separator == "&":
                rows[-1].append(self._sum())
            elif self.token != "\\end":
                rows.append([self._sum()])
        self._need("\\end")
        return ("matrix", *(("row", *row) for row in rows))
