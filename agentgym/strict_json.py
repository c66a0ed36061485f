"""JSON from a peer that need not be honest: no NaN, no infinity, nothing on which code that walks it fails."""

from __future__ import annotations

import json
import math
from typing import Any

__all__ = ["encodable", "loads"]

MAX_LEVELS = 100


def loads(text: str | bytes | bytearray, *, allow_surrogates: bool = False) -> Any:
    """Return the value of a JSON text.

    Args:
        allow_surrogates: accept escapes of lone surrogates, for those who write them in ASCII again.
    Raises: ValueError for what is no JSON, for bytes that are no Unicode, for NaN and infinite numbers, which JSON has
        none of and `json.loads` takes, for integers of thousands of digits, for lists and objects more than
        `MAX_LEVELS` levels deep, and for lone surrogates: an answer that repeats one cannot be written as UTF-8.
    """
    if not isinstance(text, str):
        text = text.decode(json.detect_encoding(text))  # json.loads lets bytes of half a character pass
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError(f"it is nested more than {MAX_LEVELS} levels deep") from None
    levels = 0
    holders = [value] if _may_be_deep(text) else []
    while holders := [
        inner
        for holder in holders
        for inner in (holder.values() if isinstance(holder, dict) else holder)
        if isinstance(inner, list | dict)
    ]:
        levels += 1
        if levels >= MAX_LEVELS:
            raise ValueError(f"it is nested more than {MAX_LEVELS} levels deep")
    if not allow_surrogates and _may_hold_surrogates(text) and not encodable(value):
        raise ValueError("it holds half of a surrogate pair (\\ud800-\\udfff)")
    return value


def encodable(value: Any) -> bool:
    """Whether every string in a value can be written as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _may_hold_surrogates(text: str) -> bool:
    return not text.isascii() or "\\u" in text  # as it is, or escaped


def _may_be_deep(text: str) -> bool:
    """Whether there are brackets enough: few messages have, and the others need no walk through their values."""
    return text.count("[") + text.count("{") > MAX_LEVELS


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _finite(digits: str) -> float:
    if math.isfinite(value := float(digits)):
        return value
    raise ValueError(f"{digits:.40} is no finite number")
