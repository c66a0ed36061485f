"""Map tokens to characters, and find a span of a call's argument in the agent's text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from agentgym import Message
from agentgym.trajectory import Span

Range = tuple[int, int]
_JSON_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[^u]|[^\"\\]", re.DOTALL
)
"""One character of a JSON string as written. A surrogate pair counts as one."""


def token_ranges(tokenizer: Any, token_ids: Sequence[int]) -> tuple[str, list[Range]]:
    """Return the text of some tokens, and the range of characters of each token.

    If the bytes of a character are spread over several tokens, as in byte-level BPE, the range of each of these tokens
    includes the whole character. Decodes every prefix, which is slow.

    Args:
        tokenizer: a tokenizer of transformers.
    """

    def decode(ids: Sequence[int]) -> str:
        return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    text = decode(token_ids)
    # for each prefix: how many of its first characters are those of the text, and its length
    ends, lengths = list[int](), list[int]()
    for count in range(1, len(token_ids) + 1):
        prefix = text if count == len(token_ids) else decode(token_ids[:count])
        ends.append(_common_length(prefix, text, min(ends[-1], len(prefix)) if ends else 0))
        lengths.append(len(prefix))
    # Part of a character is decoded as U+FFFD. If the text itself has U+FFFD, it is complete once every later prefix is
    # longer.
    shortest = len(text)
    for at in range(len(ends) - 2, -1, -1):
        shortest = min(shortest, lengths[at + 1])
        if ends[at] and text[ends[at] - 1] == "\ufffd":
            ends[at] = min(ends[at], shortest - 1)
    begins = [0, *ends[:-1]]
    return text, [(begin, end + (length > end)) for begin, end, length in zip(begins, ends, lengths, strict=True)]


def _common_length(prefix: str, text: str, at: int) -> int:
    """Return the length of the common prefix, known to be at least `at`."""
    while at < min(len(prefix), len(text)) and prefix[at] == text[at]:
        at += 1
    return at


def written_range(text: str, message: Message, span: Span) -> Range | None:
    """Return the position of a message's span in the agent's text; None if it is not certain.

    The argument that contains the span is searched for in the text, as it is and as a JSON string. If it occurs n
    times, n calls of the message must have this argument with this value; then the occurrences belong to the calls in
    order.
    """
    counted = span.text(message)
    places = sorted({*_verbatim(text, counted), *_in_json(text, counted)})
    alike = [index for index, call in enumerate(message.calls) if call.arguments.get(span.argument) == counted]
    rank, count = (alike.index(span.call), len(alike)) if span.call is not None else (0, 1)
    if len(places) != count:
        return None
    characters = places[rank]
    return characters[span.start][0], characters[span.end - 1][1]


def _verbatim(text: str, counted: str) -> Iterator[tuple[Range, ...]]:
    """Return the character range of every literal occurrence of `counted`."""
    start = text.find(counted)
    while start >= 0:
        yield tuple((at, at + 1) for at in range(start, start + len(counted)))
        start = text.find(counted, start + 1)


def _in_json(text: str, counted: str) -> Iterator[tuple[Range, ...]]:
    """Return the character range of every occurrence of `counted` as a whole JSON string."""
    quote = text.find('"')
    while quote >= 0:
        characters, at = list[Range](), quote + 1
        for character in counted:
            match = _JSON_CHARACTER.match(text, at)
            if match is None or _meant(match.group()) != character:
                break
            at = match.end()
            characters.append(match.span())
        if len(characters) == len(counted) and text[at : at + 1] == '"':
            yield tuple(characters)
        quote = text.find('"', quote + 1)


def _meant(written: str) -> str | None:
    if not written.startswith("\\"):
        return written
    try:
        return str(json.loads(f'"{written}"'))
    except ValueError:
        return None
