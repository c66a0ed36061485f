"""Messages in which every call begins with the same mark: the walk through the text that such formats share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentgym.messages import Call
from agentgym.policy.formats.contract import (
    MAX_CALLS,
    Malformed,
    add_too_many_calls_error,
    malformed_call,
    split_reasoning,
)

Reader = Callable[[str, int, int], tuple[list[Call], int]]


def read_blocks(
    text: str, opening: str, read: Reader, *, example: str, strays: Sequence[str] = ()
) -> tuple[str, tuple[Call, ...]]:
    """Return the text outside of calls, and the calls; what CallFormat.parse returns.

    Args:
        opening: the mark with which each block of calls begins.
        read: given the text, where a block's inside begins and the number of its first call, returns its calls and
            where it ends. Where it raises Malformed, the block reaches to the next one.
        example: the right shape, for errors.
        strays: texts that only stand in a call: outside of one they are answered as a malformed call.
    """
    reasoning, rest = split_reasoning(text)
    outside, calls, at = list[str](), list[Call](), 0
    while (start := rest.find(opening, at)) >= 0:
        outside.append(rest[at:start])
        if len(calls) >= MAX_CALLS:
            add_too_many_calls_error(calls, rest.count(opening, start), example)
            at = len(rest)
            break
        begin = start + len(opening)
        try:
            of_block, at = read(rest, begin, len(calls))
            calls += of_block[: MAX_CALLS - len(calls)]
        except Malformed as malformed:
            calls.append(malformed_call(len(calls), str(malformed), example))
            following = rest.find(opening, begin)
            at = following if following >= 0 else len(rest)
    outside.append(rest[at:])
    speech = "".join(outside).strip()
    if not calls and (stray := next((mark for mark in strays if mark in speech), None)):
        calls.append(malformed_call(0, f"{stray} stands without {opening} before it.", example))
    return (reasoning + speech).strip(), tuple(calls)
