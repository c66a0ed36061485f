"""Text that agents and tools wrote, made safe to look at: nothing in it can steer a terminal or reorder a line."""

from __future__ import annotations

import re
import unicodedata
from typing import Any


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
