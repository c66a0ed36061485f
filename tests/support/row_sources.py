"""Rows for a decoder, given beforehand."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.policy.decode_request import DecodeRequest
from agentgym.policy.decoding import Decoder


class ListedRows:
    """A source of the given rows, which all begin together. They can be read when the decoder has returned."""

    def __init__(self, rows: Sequence[DecodeRequest]) -> None:
        self._rows = list(rows)

    def take(self, running: Sequence[DecodeRequest]) -> list[DecodeRequest]:
        """All rows, the first time."""
        taken, self._rows = self._rows, []
        return taken

    def is_awaited(self, row: DecodeRequest) -> bool:
        """Every row is."""
        return True

    def finish(self, row: DecodeRequest) -> None:
        """The caller has the rows."""


def decode(decoder: Decoder, rows: Sequence[DecodeRequest]) -> None:
    """Sample the rows to their ends."""
    decoder.run(ListedRows(rows))
