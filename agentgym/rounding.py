"""Shares as people read them, rounded the same way everywhere: halves away from zero, as the pages' scripts do.

Python's own formats round halves to even, and those of binary fractions either way: 62.5 % would be 62 % in a terminal
and 63 % on a page.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal


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
