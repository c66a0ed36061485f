"""Reads a mathematical answer, in LaTeX or plainly written, into a tree of plain tuples. Nothing is evaluated here.

The reader is ours, so that nothing an agent writes is ever run: no `eval`, no library's parser that calls it. It is
bounded in characters and depth, and what it does not know makes the whole text no mathematics.
"""

from __future__ import annotations

import re
from typing import Any

Tree = tuple[Any, ...]
"""("num", text), ("sym", name), ("const", name), ("fn", name, *trees), (operator, *trees), ("set", ...), ..."""

MAX_CHARS, MAX_DEPTH = 600, 40
FUNCTIONS = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "arcsin",
        "arccos",
        "arctan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "ln",
        "log",
        "exp",
        "sqrt",
        "abs",
    ]
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
    [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "varepsilon",
        "zeta",
        "eta",
        "theta",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "rho",
        "sigma",
        "tau",
        "phi",
        "varphi",
        "chi",
        "psi",
        "omega",
        "Gamma",
        "Delta",
        "Theta",
        "Lambda",
        "Sigma",
        "Phi",
        "Psi",
        "Omega",
    ]
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
    """The text is not mathematics that this reader knows."""


def read(text: str) -> Tree:
    """The tree of an answer. Raises: NoMaths if it is too long, too deep or holds anything unknown."""
    if len(text) > MAX_CHARS:
        raise NoMaths(f"{len(text)} characters are more than {MAX_CHARS}")
    reader = _Reader(_tokens(text))
    try:
        tree = reader.answer()
    except RecursionError as error:
        raise NoMaths("nested too deeply") from error
    if reader.token is not None:
        raise NoMaths(f"unexpected {reader.token!r}")
    return tree


def _tokens(text: str) -> list[str]:
    """Numbers, names with a leading backslash where they are commands, words of letters, and operators."""
    text = _TEXT.sub(lambda found: f" {found[1]} " if found[1].strip() in ("and", "or") else " ", text)
    text = _NOISE.sub(" ", _DEGREES.sub(" ", text)).strip().rstrip(".").strip()
    text = _MATRIX.sub(lambda found: f" \\{found[1]} ", text)
    text = _THOUSANDS.sub(lambda found: re.sub(r"[{},]", "", found[1]), text)
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NoMaths(f"unknown character {text[at]!r}")
        at = match.end()
        kind, token = str(match.lastgroup), match[0]
        if kind == "word":
            found += _words(token)
        elif kind == "command":
            found.append(_command(match["command"]))
        elif kind == "space":  # only between two numbers it says something: 1 1/2
            found += ["\\mixed"] if found and found[-1][0].isdigit() and text[at : at + 1].isdigit() else []
        else:
            found.append(_OPERATORS.get(token, token))
    return found


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


class _Reader:
    """Recursive descent over tokens: answer > relation > sum > product > power > atom."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0

    @property
    def token(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, *wanted: str) -> str | None:
        """The next token if it is one of these."""
        if self.token is None or self.token not in wanted:
            return None
        self._at += 1
        return self._tokens[self._at - 1]

    def _need(self, wanted: str) -> None:
        if self._take(wanted) is None:
            raise NoMaths(f"{wanted!r} is missing before {self.token!r}")

    def answer(self) -> Tree:
        """Alternatives separated by commas are a set, as solutions are listed: `1, 2`."""
        found = [self._joined()]
        while self._take(",", ";"):
            found.append(self._joined())
        return found[0] if len(found) == 1 else ("set", *found)

    def _joined(self) -> Tree:
        found = [self._relation()]
        while self._take("\\cup", "cup"):
            found.append(self._relation())
        return found[0] if len(found) == 1 else ("union", *found)

    def _relation(self) -> Tree:
        left = self._sum()
        if self._take("\\in", "\\to"):
            return self._sum()  # `x in [1, 2]` says what x is
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
        whole = self._power()
        self._need("/")
        return ("div", whole, self._power())

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
        """Of \\frac, \\sqrt and the like: a group, or one token: \\frac12 is one half."""
        if self.token == "{":
            return self._group()
        token = self.token
        if token is not None and token.isdigit() and len(token) > 1:
            self._tokens[self._at : self._at + 1] = [token[0], token[1:]]
        return self._atom()

    def _atom(self) -> Tree:
        token = self.token
        if token is None:
            raise NoMaths("it ends where something is missing")
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
        found = "_"
        while (token := self.token) is not None and token != "}":
            found += token
            self._at += 1
        self._need("}")
        return found

    def _enclosed(self, opening: str) -> Tree:
        """A bracketed expression, or a tuple, interval or set."""
        self._depth += 1
        found = [self._joined()]
        while self._take(",", ";"):
            found.append(self._joined())
        closing = self.token
        if closing not in (")", "]", "}", "\\}"):
            raise NoMaths(f"{opening!r} is not closed")
        self._at += 1
        self._depth -= 1
        if opening in ("{", "\\{"):
            if closing not in ("}", "\\}"):
                raise NoMaths(f"{opening!r} is closed by {closing!r}")
            return found[0] if opening == "{" and len(found) == 1 else ("set", *found)
        if closing in ("}", "\\}"):
            raise NoMaths(f"{opening!r} is closed by {closing!r}")
        if len(found) == 1 and (opening, closing) == ("(", ")"):
            return found[0]
        return ("tuple", opening + closing, *found)

    def _matrix(self) -> Tree:
        rows: list[Any] = [[self._sum()]]
        while separator := self._take("&", "\\\\"):
            if separator == "&":
                rows[-1].append(self._sum())
            elif self.token != "\\end":
                rows.append([self._sum()])
        self._need("\\end")
        return ("matrix", *(("row", *row) for row in rows))
