"""How a program ended, wherever it ran."""

from __future__ import annotations

from dataclasses import dataclass

SHOWN_BYTES = 2000


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How a program ended.

    Attributes:
        exit_code: negative if a signal ended it. output: the end of what it wrote.
        hand_in: the tool that hands in the files that it leaves; "" for none.
    """

    exit_code: int
    output: str
    hand_in: str = ""


def output_end(output: bytes) -> str:
    """Return the end of a program's output as text."""
    return output[-SHOWN_BYTES:].decode("utf-8", "replace")
