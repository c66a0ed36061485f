"""Text for people: shares of 1 in percent, and what agents and tools wrote made safe to look at.

Shares are rounded the same way everywhere, halves away from zero, as the pages' scripts do. Python's own formats round
halves to even, and those of binary fractions either way: 62.5 % would be 62 % in a terminal and 63 % on a page.
"""

from __future__ import annotations

import math
import re
import unicodedata
from decimal import ROUND_HALF_UP, Decimal
from typing import Any


def hundredfold(share: float, digits: int = 0) -> str:
    """A share of 1 as a number of hundredths: "63" for 0.625. The shortest decimal that reads as the share counts."""
    if not math.isfinite(share):
        return str(float(share))
    text = str(Decimal(repr(float(share))).scaleb(2).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
    return text.removeprefix("-") if not float(text) else text


def percent(share: float, digits: int = 0) -> str:
    """A share of 1 in percent: "63%" for 0.625."""
    return f"{hundredfold(share, digits)}%"


def points(difference: float, digits: int = 0) -> str:
    """A difference of two shares in points of a hundred, with its sign: "+13" for 0.125."""
    text = hundredfold(difference, digits)
    return text if text.startswith("-") else f"+{text}"


def visible(value: Any) -> str:
    """The value as text in which every character that hides, moves or reorders others can be seen.

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
