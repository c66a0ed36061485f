"""Text helpers: format percentages, make untrusted text safe to display, and fold text for comparison by judges.

Shares are rounded the same way everywhere, halves away from zero, as in the pages' scripts. Python's own formats round
halves to even, and inexact halves either way: 62.5 % would be 62 % in a terminal and 63 % on a page.
"""

from __future__ import annotations

import math
import re
import unicodedata
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Any

__all__ = ["counted", "percent", "visible"]

_TWINS = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u2035\u00b4\u02b9\u02bb\u02bc\u02bd\u05f3\uff07\ua78c", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u2036\u301d\u301e\u301f\u05f4\uff02", '"'),
    **dict.fromkeys("\u2039\u203a", "'"),
    **dict.fromkeys(
        "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d\u2043\u02d7\u05be\u2e3a\u2e3b\u2796", "-"
    ),
    **dict.fromkeys("\u2044\u2215\u2571\u29f8", "/"),
    **dict.fromkeys("\u066b\u3002\u06d4\uff61", "."),
    **dict.fromkeys("\u066c\u060c\u3001\uff64", ","),
    **dict.fromkeys("\u2236\ua789", ":"),
    **dict.fromkeys("\u223c\u02dc\u301c", "~"),
    "\u2217": "*",
    "\u2223": "|",
    "\u066a": "%",
    "\u061f": "?",
}
"""The ASCII character for each of its typographic, mathematical and foreign variants."""
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Invisible characters that Unicode does not class as format characters: joiners, fillers and variation selectors."""
_OWN_MEANING = ("<super>", "<sub>", "<circle>")
"""The kinds of compatibility characters whose meaning differs from that of their plain characters."""
_LATEX_COMMA = re.compile(r"(?<=[0-9])\{,\}(?=[0-9]{3})")
_FRACTION = re.compile(r"(\d)(?=[\u00bc-\u00be\u2150-\u215e\u2189])")
"""A digit before a fraction character is not part of its numerator: 1\N{VULGAR FRACTION ONE HALF} is 1 1/2."""


def hundredfold(share: float, digits: int = 0) -> str:
    """Return a share of 1 in hundredths: "63" for 0.625. The share's shortest decimal form is rounded."""
    if not math.isfinite(share):
        return str(float(share))
    text = str(Decimal(repr(float(share))).scaleb(2).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
    return text.removeprefix("-") if not float(text) else text


def percent(share: float, digits: int = 0) -> str:
    """Return a share of 1 in percent: "63%" for 0.625."""
    return f"{hundredfold(share, digits)}%"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which takes an s or es in the plural: "1 call", "3 calls", "2 sandboxes"."""
    plural = f"{noun}es" if noun.endswith(("s", "x", "ch")) else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def format_count(count: int) -> str:
    """Return a count as "once" or "3 times"."""
    return "once" if count == 1 else f"{count} times"


def points(difference: float, digits: int = 0) -> str:
    """Return a difference of two shares in percentage points, with its sign: "+13" for 0.125."""
    text = hundredfold(difference, digits)
    return text if text.startswith("-") else f"+{text}"


def fold_text(text: str) -> str:
    """Return a text in the normal form that judges compare, whatever its Unicode and typographic variants.

    Letters become lower case and composed; whitespace becomes single spaces, none at the ends; quotes, apostrophes,
    hyphens, minus signs, fractions, digits and full-width letters become ASCII, LaTeX's 1{,}000 becomes 1,000, and
    invisible characters are removed.
    Exponents and indices stay, so that 10\N{SUPERSCRIPT TWO} is not 102.
    """
    if not text.isascii():
        text = _FRACTION.sub(r"\1 ", unicodedata.normalize("NFC", text))
        text = "".join(char if char.isascii() else _plain(char) for char in text)
    text = _LATEX_COMMA.sub(",", text.casefold())
    return " ".join((text if text.isascii() else unicodedata.normalize("NFC", text)).split())


@lru_cache(4096)
def _plain(char: str) -> str:
    """Return the normal form of a character for comparison; "" for an invisible one."""
    if (twin := _TWINS.get(char)) is not None:
        return twin
    if unicodedata.category(char) == "Cf" or _INVISIBLE.match(char):
        return ""
    if (digit := unicodedata.decimal(char, None)) is not None:
        return str(digit)
    kind = unicodedata.decomposition(char).partition(" ")[0]
    if kind in _OWN_MEANING:
        return char
    return "".join(_TWINS.get(each, each) for each in unicodedata.normalize("NFKC", char))


def visible(value: Any) -> str:
    """Return the value as text in which every character that hides, moves or reorders other characters is visible.

    Control characters (terminal escapes among them) become their Unicode pictures; bidirectional overrides, other
    format characters, lone surrogates and private or unassigned characters become their code point. Line breaks
    and tabs stay.
    """
    raw = str(value)
    if raw.isascii() and raw.isprintable():
        return raw
    return re.sub(r"[^ -~\n\t]", _picture, raw)


def _picture(match: re.Match[str]) -> str:
    char = match[0]
    if ord(char) < 0x20:
        return chr(0x2400 + ord(char))
    if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn"):
        return f"\N{MATHEMATICAL LEFT ANGLE BRACKET}U+{ord(char):04X}\N{MATHEMATICAL RIGHT ANGLE BRACKET}"
    return char
