"""What each sandbox may use of the processor core on which the proxy's thread runs."""

from __future__ import annotations

_TOTAL = 0.3  # of a core: the thread takes turns with the host's own Python code
_IN_USE_S = 1.0  # after its last use, a sandbox counts for so long


class ProcessorShare:
    """Divides the proxy's share of a core equally among the sandboxes that use their networks now."""

    def __init__(self) -> None:
        self._used_at: dict[object, float] = {}  # the longest unused first

    def of(self, user: object, most: float, now: float) -> float:
        """Return the share of one core that a user has, at most `most`. Counts as a use at the time `now`, in
        seconds.
        """
        self._used_at.pop(user, None)
        self._used_at[user] = now
        while (first := next(iter(self._used_at))) is not user and self._used_at[first] < now - _IN_USE_S:
            del self._used_at[first]
        return min(most, _TOTAL / len(self._used_at))
