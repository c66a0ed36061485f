"""Checks which values an agent has told: dates, times, amounts and words.

A message that lists many values tells none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from decimal import Decimal

from agentgym.reward import comparison, fold_text

MAX_CHARS = 2_000
"""The number of characters of a message that a simulated user reads."""
MAX_IN_MESSAGE = 3
"""In a message with more values of a kind than this, none of them counts as told."""
MAX_PER_VALUE, MAX_BESIDE = 2, 3
"""The messages that tell values of a kind may together contain at most MAX_PER_VALUE values of that kind for each value
to be told, plus MAX_BESIDE.
"""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DATE = re.compile(
    r"\b([0-9]{4})-([0-9][0-9])-([0-9][0-9])\b"
    rf"|\b([0-9]{{1,2}})(?:st|nd|rd|th|\.)? (?:of )?{_MONTH},? ([0-9]{{4}})\b"
    rf"|\b{_MONTH} ([0-9]{{1,2}})(?:st|nd|rd|th)?,? ([0-9]{{4}})\b"
)
_OTHER_DATE = re.compile(
    rf"\b[0-9]{{1,2}}[/.][0-9]{{1,2}}[/.][0-9]{{2,4}}\b|\b[0-9]{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?{_MONTH}\b"
    rf"|\b{_MONTH} [0-9]{{1,4}}(?:st|nd|rd|th)?\b"
)
"""Matches a date without a year, or with an unclear order of day and month: it is not read as a value, and its
numbers are not read as amounts.
"""
_TIME = re.compile(r"\b([0-9]{1,2}):([0-9][0-9])(?::[0-9][0-9])?(?: ?([ap])\.?m\b)?")
_NAMED = "order|booking|article|line|flight|variant|customer|bill|id|zip|code|number|no\\."
_NAME = re.compile(rf"(?:\b(?:{_NAMED})s? (?:(?:id|number|code|no\.) )?#?|#)[0-9]+\b|\b[0-9]{{7,}}\b")
_UNITS = "percent|minute|hour|day|week|month|year|gigabyte|gb|bag|seat|piece|article|order|time"
_QUANTITY = re.compile(rf"\b[0-9]+ ?(?:more |free )?(?:%|(?:{_UNITS})s?\b)")
_AMOUNT = re.compile(r"(?<![\w.])(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?!\w)")


def untold(values: Collection[object], messages: Sequence[str]) -> list[str]:
    """Return the values that no message of an agent has told.

    A date (2025-12-14), a time (07:05) or an amount (45) must occur in a message with at most `MAX_IN_MESSAGE` values
    of its kind. All messages that tell such values may together contain only a few more of them than must be told, so
    an agent that lists every possibility has told nothing. Ids (order 1003) and quantities (30 days) are not amounts.
    Any other value is told if its words occur. Only the first `MAX_CHARS` characters of a message count.
    """
    texts = [fold_text(text[:MAX_CHARS]) for text in messages]
    named = [_values_in(text) for text in texts]
    required = [(str(value), _values_in(fold_text(str(value)))) for value in values]
    missing = []
    for text, own in required:
        kind, value = next(((kind, min(members)) for kind, members in own.items() if members), ("", ""))
        if not kind or _AMOUNT.sub("", _TIME.sub("", _DATE.sub("", fold_text(text)))).strip():
            words = re.compile(rf"(?<!\w){re.escape(comparison.fold_answer(text))}(?!\w)")
            is_told = any(words.search(comparison.fold_answer(message)) for message in texts)
        else:
            few = [message[kind] for message in named if len(message[kind]) <= MAX_IN_MESSAGE]
            candidates = set().union(*few)
            of_kind = len(set().union(*(other[kind] for _, other in required)))
            is_told = value in candidates and len(candidates) <= MAX_PER_VALUE * of_kind + MAX_BESIDE
        if not is_told:
            missing.append(text)
    return missing


def _values_in(text: str) -> dict[str, set[str]]:
    """Return the dates, times and amounts in a lower-case text, each in one spelling."""
    values: dict[str, set[str]] = {"date": set(), "time": set(), "amount": set()}
    for match in _DATE.finditer(text):
        year, month, day, day_before, month_after, year_after, month_before, day_after, last_year = match.groups()
        name = month_after or month_before
        number = int(month) if month else _MONTHS.index(name[:3]) + 1
        values["date"].add(f"{year or year_after or last_year}-{number:02d}-{int(day or day_before or day_after):02d}")
    text = _OTHER_DATE.sub(" ", _DATE.sub(" ", text))
    for match in _TIME.finditer(text):
        hour = int(match[1]) % 12 + 12 * (match[3] == "p") if match[3] else int(match[1])
        values["time"].add(f"{hour:02d}:{match[2]}")
    text = _QUANTITY.sub(" ", _NAME.sub(" ", _TIME.sub(" ", text)))
    for match in _AMOUNT.finditer(text):
        values["amount"].add(str(Decimal(match[0].replace(",", "")).normalize()))
    return values
