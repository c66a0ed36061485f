"""Splits a mathematical answer, in LaTeX or plain notation, into tokens: numbers, names, commands and operators."""

# ruff: noqa: SIM905 - a list of words is easier to read as one string that is split

from __future__ import annotations

import re
import unicodedata

FUNCTIONS = frozenset(
    """
    sin cos tan cot sec csc arcsin arccos arctan asin acos atan sinh cosh tanh ln log exp sqrt abs
    floor ceil
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
    "lt": "<",
    "gt": ">",
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
    "mp": "∓",
    "\u222a": "cup",
    "√": "sqrt",
    "vert": "|",
}
_TEXT = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}")
_NOISE = re.compile(
    r"\\left(?![a-z])|\\right(?![a-z])|\\displaystyle|(?<!\\)\\[,;:!> ]|~|\\\$|\$|\\\(|\\\)|\\\[|\\\]|\\quad|\\%|%"
)
_MATRIX = re.compile(
    r"\\(begin|end)\s*\{(?:small|[bpBV])?matrix\}|\\(begin)\s*\{array\}\s*(?:\{[clr| ]*\})?|\\(end)\s*\{array\}"
)
_DEGREES = re.compile(r"\^\s*\{?\s*\\circ\s*\}?|°|\\degree")
_TOKEN = re.compile(
    r"(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3}(?![\d.]))?)|\\(?P<command>[a-zA-Z]+)|(?P<brace>\\[{}])|(?P<row>\\\\)"
    r"|(?P<operator>\*\*|<=|>=|[-+*/^_=<>(){}\[\]|!,;&\u00b7\u00d7\u00f7\u2212\u2013\u00b1\u2213\u2264\u2265\u2260\u222a\u221a])|(?P<word>[a-zA-Z\u221e\u03b1-\u03c9]+)|(?P<space>\s+)"
)
_THOUSANDS = re.compile(r"(?<![\d.(\[{,])(\d{1,3}(?:,\d{3})+)(?![\d,])")  # in brackets, these are a tuple
_SPACED_THOUSANDS = re.compile(r"(?<![\d.,])(\d{1,3}(?:(?:\{,\}|,?\\!|\\!,|\\[,;: ])\d{3})+)(?![\d,])")
_SYNONYMS = {
    "dfrac": "frac",
    "tfrac": "frac",
    "cfrac": "frac",
    "dbinom": "binom",
    "tbinom": "binom",
    "leqslant": "leq",
    "geqslant": "geq",
    "leqq": "leq",
    "geqq": "geq",
    "lvert": "vert",
    "rvert": "vert",
    "varnothing": "emptyset",
}
GAP = "\\gap"
_EXPONENT = re.compile("[\u207a\u207b]?[\u00b9\u00b2\u00b3\u2070\u2074-\u2079\u207f]+")
_INDEX = re.compile("[\u2080-\u2089]+")
_FRACTION_SIGN = re.compile("[\u00bc-\u00be\u2150-\u215e]")
_SIGNS = {"\u2205": r"\emptyset ", "\u2044": "/", "\u2215": "/", "\u22c5": r"\cdot ", "\u2217": "*"}
_REPEATING = re.compile(r"(\d{0,40})\.(\d{0,40})\\overline\s*\{\s*(\d{1,40})\s*\}")


class NoMaths(ValueError):
    """The text is not mathematics that this parser supports."""


def tokens_of(text: str) -> list[str]:
    """Return a text's tokens: numbers, names (with a backslash if they are commands), other letters, and operators.

    GAP means a space before a number, as in `1 1/2` and `n 2^n`. Raises: NoMaths for an unknown character or word.
    """
    text = _without_thousands(text)
    text = _TEXT.sub(lambda m: f" {m[1]} " if m[1].strip() in ("and", "or") else " ", text)
    text = _NOISE.sub(" ", _DEGREES.sub(" ", text)).strip().rstrip(".").strip()
    text = _MATRIX.sub(lambda m: f" \\{m[1] or m[2] or m[3]} ", text)
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
        elif kind == "space":  # spaces only matter before a number
            tokens += [GAP] if _ends_factor(tokens) and text[position : position + 1].isdigit() else []
        else:
            tokens.append(_OPERATORS.get(token, token))
    return tokens


def latex_of(text: str) -> str:
    r"""Return a text with Unicode's exponents, indices, fractions and signs written in LaTeX, and 0.\overline{3} as
    3/9.
    """
    if not text.isascii():
        text = _EXPONENT.sub(lambda m: f"^{{{_plain(m[0])}}}", text)
        text = _INDEX.sub(lambda m: f"_{{{_plain(m[0])}}}", text)
        text = _FRACTION_SIGN.sub(lambda m: "\\frac{{{}}}{{{}}}".format(*_plain(m[0]).split("/")), text)
        text = "".join(_SIGNS.get(char, char) for char in text)
    return _REPEATING.sub(_as_fraction, text)


def _plain(characters: str) -> str:
    normal = unicodedata.normalize("NFKC", characters)
    return normal.replace("\u2044", "/").replace("\u2212", "-").removeprefix("+")


def _as_fraction(repeating: re.Match[str]) -> str:
    integer, start, period = repeating.groups()
    numerator = int(integer + start + period) - int("0" + integer + start)
    return f"\\frac{{{numerator}}}{{{10 ** len(start) * (10 ** len(period) - 1)}}}"


def _ends_factor(tokens: list[str]) -> bool:
    last = tokens[-1] if tokens else ""
    return last[:1].isdigit() or last.isalpha() or last in (")", "]", "}") or last[1:] in GREEK or last[1:] in CONSTANTS


def _without_thousands(text: str) -> str:
    r"""Return the text with thousands joined into one number: `1,234`, `1{,}234`, `10,\!080` and `1\,000`."""
    text = _SPACED_THOUSANDS.sub(lambda m: re.sub(r"\D", "", m[1]), text)
    return _THOUSANDS.sub(lambda m: m[1].replace(",", ""), text)


def plain_text(text: str) -> str:
    r"""Return a text without case, spaces, dollars, \text and \left, for comparing answers that are not mathematics."""
    text = _TEXT.sub(r"\1", _NOISE.sub("", _without_thousands(text)))
    for name, synonym in _SYNONYMS.items():
        text = re.sub(rf"\\{name}(?![a-zA-Z])", rf"\\{synonym}", text)
    text = re.sub(r"\{\s*(\w)\s*\}", r" \1", text)  # \pmod{5} is \pmod 5
    return "".join(text.split()).casefold().rstrip(".")


def _command(name: str) -> str:
    name = _SYNONYMS.get(name, name)
    return _OPERATORS.get(name) or (RELATIONS[name] if name in RELATIONS else "\\" + name)


def _words(word: str) -> list[str]:
    """Split a word into tokens: known names become commands, `and` and `or` a comma, at most two other letters a
    product.
    """
    if word in ("and", "or"):
        return [","]
    if word in FUNCTIONS or (word.casefold() in CONSTANTS and len(word) > 1) or word in GREEK:
        return ["\\" + (word.casefold() if word.casefold() in CONSTANTS else word)]
    if len(word) > 2:
        for name in sorted((*FUNCTIONS, "pi"), key=len, reverse=True):  # for `xsin` and `pir`: rare, but readable
            if word.endswith(name) and len(word) - len(name) <= 2:
                return [*word[: -len(name)], "\\" + name]
        raise NoMaths(f"{word!r} is a word, not part of a formula")
    return ["\\infty" if letter == "∞" else letter for letter in word]
