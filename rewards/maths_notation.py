"""Parses a mathematical answer, in LaTeX or plain notation, into a tree of tuples. Nothing is evaluated.

The answer may be hostile and library parsers call `eval`, so this parser is our own. Length and depth are limited; one
unknown token makes the whole text unreadable (NoMaths).
"""

from __future__ import annotations

from typing import Any

from .maths_tokens import CONSTANTS, FUNCTIONS, GAP, GREEK, RELATIONS, NoMaths, tokens_of

Tree = tuple[Any, ...]
"""("num", text), ("sym", name), ("const", name), ("fn", name, *trees), (operator, *trees), ("set", ...), ..."""

MAX_CHARS, MAX_DEPTH = 600, 40
_SUMS = {"+": "add", "-": "sub", "±": "pm", "∓": "pm"}
_INVERTIBLE = ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh")


def read(text: str) -> Tree:
    """Return the tree of an answer. Raises: NoMaths if it is too long, nested too deeply or has an unknown token."""
    if len(text) > MAX_CHARS:
        raise NoMaths(f"the text has {len(text)} characters, more than {MAX_CHARS}")
    parser = _Parser(tokens_of(text))
    try:
        tree = parser.answer()
    except RecursionError as error:
        raise NoMaths("the formula is nested too deeply") from error
    if parser.token is not None:
        raise NoMaths(f"unexpected {parser.token!r}")
    return tree


class _Parser:
    """Recursive descent over tokens: answer > relation > sum > product > power > atom."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0

    @property
    def token(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, *expected: str) -> str | None:
        """Consume and return the next token if it is one of these; else return None."""
        if self.token is None or self.token not in expected:
            return None
        self._at += 1
        return self._tokens[self._at - 1]

    def _need(self, expected: str) -> None:
        if self._take(expected) is None:
            raise NoMaths(f"{expected!r} is missing before {self.token!r}")

    def answer(self) -> Tree:
        """Return the tree of the whole text; parts separated by commas, such as the solutions `1, 2`, become a set."""
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
            return self._sum()  # `x in [1, 2]` is read as the set of values of x
        chain: list[Any] = [left]
        while self.token in RELATIONS.values():
            chain += [self._take(*RELATIONS.values()), self._sum()]
        return left if len(chain) == 1 else ("relation", *chain)

    def _sum(self) -> Tree:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NoMaths("the formula is nested too deeply")
        sign = self._take(*_SUMS)
        tree = self._product()
        if sign in ("±", "∓"):
            tree = ("pm", ("num", "0"), tree)
        tree = ("neg", tree) if sign in ("-", "∓") else tree
        while operator := self._take(*_SUMS):
            term = self._product()
            tree = (_SUMS[operator], tree, ("neg", term) if operator == "∓" else term)
        self._depth -= 1
        return tree

    def _product(self) -> Tree:
        tree = self._power()
        while True:
            if operator := self._take("*", "/"):
                tree = ("mul" if operator == "*" else "div", tree, self._signed())
            elif self._take(GAP):  # 1 1/2 is a mixed number, n 2^n a product
                tree = ("add", tree, self._fraction()) if tree[0] == "num" else ("mul", tree, self._power())
            elif tree[0] == "num" and self.token == "\\frac":  # 1\frac{1}{2} is a mixed number, as in schoolbooks
                tree = ("add", tree, self._power())
            elif self._begins_atom() or self._number_after_bracket():
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
        if tree[0] == "num" and self._take("_"):
            tree = _in_base(tree[1], self._group() if self.token == "{" else self._atom())
        while self._take("!"):
            tree = ("fact", tree)
        if self._take("^"):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise NoMaths("the formula is nested too deeply")
            tree = ("pow", tree, self._group() if self.token == "{" else self._signed())
            self._depth -= 1
        return tree

    def _begins_atom(self) -> bool:
        token = self.token
        if token is None or token in (GAP, "\\cup", "\\in", "\\to", "\\end", "\\rfloor", "\\rceil"):
            return False
        return token in ("(", "[", "{", "\\{") or (token[0] == "\\" and token[-1].isalpha()) or token.isalpha()

    def _number_after_bracket(self) -> bool:
        """Return whether the next token is a number that multiplies the brackets before it, as in (n-2)2^n."""
        return self.token is not None and self.token[0].isdigit() and self._tokens[self._at - 1] in (")", "]", "}")

    def _group(self) -> Tree:
        self._need("{")
        tree = self._sum()
        self._need("}")
        return tree

    def _argument(self) -> Tree:
        r"""Return the argument of \frac, \sqrt and others: a group or one token, so that \frac12 is one half."""
        self._take(GAP)
        if self.token == "{":
            return self._group()
        token = self.token
        if token is not None and token.isdigit() and len(token) > 1:
            self._tokens[self._at : self._at + 1] = [token[0], token[1:]]
        return self._atom()

    def _atom(self) -> Tree:
        self._take(GAP)  # before a function's argument, as in \\log_2 8
        token = self.token
        if token is None:
            raise NoMaths("the formula ends too early")
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
        if name in ("lfloor", "lceil"):
            tree = self._sum()
            self._need(f"\\r{name[1:]}")
            return ("fn", name[1:], tree)
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
        argument = self._argument() if name == "sqrt" or self.token in ("(", "{") else self._bare_argument()
        if power == ("neg", ("num", "1")) and name in _INVERTIBLE:
            return ("fn", f"a{name}", argument)
        tree: Tree = ("fn", name, argument) if base is None else ("div", ("fn", "ln", argument), ("fn", "ln", base))
        return tree if power is None else ("pow", tree, power)

    def _bare_argument(self) -> Tree:
        r"""Return a function's argument without brackets: all factors up to the next function, bracket or operator.

        This follows schoolbooks: \sin 2x is sin(2x), \ln 2x is ln(2x), and \sin x \cos y is a product of two functions.
        """
        tree = self._power()
        while (
            self._begins_atom()
            and self.token not in ("(", "[", "\\{")
            and str(self.token)[1:] not in FUNCTIONS - {"sqrt"}
        ):
            tree = ("mul", tree, self._power())
        return tree

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
        """Return a bracketed expression, or a tuple, interval or set."""
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
        if len(parts) == 1 and ((opening, closing) == ("(", ")") or parts[0][0] == "matrix"):
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


def _in_base(digits: str, base: Tree) -> Tree:
    """Return a number with its base, as in 52_8. It equals only the same digits in the same base."""
    try:
        return ("base", ("num", str(int(digits, int(base[1])))), base)
    except (ValueError, TypeError) as error:
        raise NoMaths(f"{digits!r} is not a number in base {base[1]!r:.20}") from error
