"""Messages in which every call begins with the same mark: the walk through the text that such formats share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agentgym import Call
from agentgym.policy import formats

Reader = Callable[[str, int, int], tuple[list[Call], int]]


def read_blocks(
    text: str, opening: str, read: Reader, *, example: str, strays: Sequence[str] = ()
) -> tuple[str, tuple[Call, ...]]:
    """Return the text outside calls, and the calls, as CallFormat.parse does.

    Args:
        opening: the mark with which each block of calls begins.
        read: given the text, the start of a block's content and the number of its first call, returns the block's
            calls and its end. If it raises Malformed, the block extends to the next one.
        example: the right form of a call, for errors.
        strays: texts that may occur only inside a call; elsewhere they are answered as a malformed call.
    """
    reader = formats.CallWalk(text, re.compile(re.escape(opening)), example)
    while mark := reader.next_call():
        begin = mark.end()
        try:
            of_block, reader.at = read(text, begin, len(reader.calls))
            reader.calls += of_block[: formats.MAX_CALLS - len(reader.calls)]
        except formats.Malformed as malformed:
            reader.refuse(str(malformed))
            following = text.find(opening, begin)
            reader.at = following if following >= 0 else len(text)
    stray = next((mark for mark in strays if mark in reader.speech), None) if not reader.calls else None
    return reader.message(stray and f"{stray} stands without {opening} before it.")
