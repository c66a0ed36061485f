"""Parse JSON from an untrusted peer: no NaN, no infinity, and nothing that breaks code that walks the value."""

from __future__ import annotations

import json
import math
from typing import Any

__all__ = ["loads"]

MAX_LEVELS = 100


def loads(text: str | bytes | bytearray, *, allow_surrogates: bool = False) -> Any:
    """Return the value of a JSON text.

    Args:
        allow_surrogates: accept escaped lone surrogates, for callers that write them as ASCII escapes again.
    Raises: ValueError for invalid JSON; bytes that are not Unicode; NaN and infinite numbers, which `json.loads`
        accepts although JSON does not have them; integers of thousands of digits; more than `MAX_LEVELS` nested levels;
        and lone surrogates, because an answer that repeats one cannot be written as UTF-8.
    """
    if not isinstance(text, str):
        text = text.decode(json.detect_encoding(text))  # json.loads accepts incomplete characters in bytes
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
        raise ValueError("it contains half of a surrogate pair (\\ud800-\\udfff)")
    return value


def encodable(value: Any) -> bool:
    """Return whether every string in a value can be encoded as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _may_hold_surrogates(text: str) -> bool:
    return not text.isascii() or "\\u" in text  # literal or escaped


def _may_be_deep(text: str) -> bool:
    """Return whether the text has enough brackets to be too deep. Few messages do, so most skip the depth check."""
    return text.count("[") + text.count("{") > MAX_LEVELS


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    if math.isfinite(value := float(digits)):
        return value
    raise ValueError(f"{digits:.40} is not a finite number")
