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

_TWINS = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2039\u203a\u2032\u00b4\u02bc\u02b9\uff07", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u301d\u301e\uff02", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d\u2043", "-"),
}
"""The ASCII apostrophe, quote or hyphen for each of its typographic variants."""
_OWN_MEANING = ("<super>", "<sub>", "<fraction>", "<circle>", "<square>")
"""The kinds of compatibility characters whose meaning differs from that of their plain characters."""


def hundredfold(share: float, digits: int = 0) -> str:
    """Return a share of 1 in hundredths: "63" for 0.625. Rounding starts from the share's shortest decimal form."""
    if not math.isfinite(share):
        return str(float(share))
    text = str(Decimal(repr(float(share))).scaleb(2).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
    return text.removeprefix("-") if not float(text) else text


def percent(share: float, digits: int = 0) -> str:
    """Return a share of 1 in percent: "63%" for 0.625."""
    return f"{hundredfold(share, digits)}%"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which takes an s in the plural: "1 call", "3 calls"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def points(difference: float, digits: int = 0) -> str:
    """Return a difference of two shares in percentage points, with its sign: "+13" for 0.125."""
    text = hundredfold(difference, digits)
    return text if text.startswith("-") else f"+{text}"


def fold_text(text: str) -> str:
    """Return a text in the normal form that judges compare, whatever its Unicode and typographic variants.

    Letters become lower case and composed; whitespace becomes single spaces, none at the ends; quotes, apostrophes,
    hyphens, minus signs, digits and full-width letters become ASCII; invisible characters are removed. Exponents,
    indices and fractions stay, so that 10\N{SUPERSCRIPT TWO} is not 102.
    """
    if not text.isascii():
        text = "".join(char if char.isascii() else _plain(char) for char in unicodedata.normalize("NFC", text))
    text = text.casefold()
    return " ".join((text if text.isascii() else unicodedata.normalize("NFC", text)).split())


@lru_cache(4096)
def _plain(char: str) -> str:
    """Return the normal form of a character for comparison; "" for an invisible one."""
    if (twin := _TWINS.get(char)) is not None:
        return twin
    if unicodedata.category(char) == "Cf" or "\ufe00" <= char <= "\ufe0f":
        return ""
    if (digit := unicodedata.decimal(char, None)) is not None:
        return str(digit)
    kind = unicodedata.decomposition(char).partition(" ")[0]
    return char if kind in _OWN_MEANING else unicodedata.normalize("NFKC", char)


def visible(value: Any) -> str:
    """Return the value as text, with every character that hides, moves or reorders others made visible.

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
