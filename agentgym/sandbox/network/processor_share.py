"""Limits each sandbox's share of the processor core that runs the proxy's thread."""

from __future__ import annotations

_TOTAL = 0.3  # of one core, because the thread takes turns with the host's own Python code
_IN_USE_S = 1.0  # how long a sandbox counts as a user after its last use


class ProcessorShare:
    """Divides the proxy's share of a core equally among the sandboxes that currently use their networks."""

    def __init__(self) -> None:
        self._used_at: dict[object, float] = {}  # the least recently used first

    def of(self, user: object, most: float, now: float) -> float:
        """Return a user's share of one core, at most `most`. The call itself counts as a use at `now`, in seconds."""
        self._used_at.pop(user, None)
        self._used_at[user] = now
        while (first := next(iter(self._used_at))) is not user and self._used_at[first] < now - _IN_USE_S:
            del self._used_at[first]
        return min(most, _TOTAL / len(self._used_at))
