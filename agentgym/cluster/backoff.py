"""Growing pauses between attempts that fail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Backoff:
    """Pauses after failures in a row: each is twice as long as the one before.

    Attributes:
        first_s, longest_s: bounds of a pause, in seconds.
        free: how many failures in a row cause no pause.
        failures: how many attempts in a row have failed.
        until: the end of the pause, on the caller's clock.
    """

    first_s: float
    longest_s: float
    free: int = 0
    failures: int = 0
    until: float = float("-inf")

    def fail(self, now: float) -> None:
        """Count a failure, unless it is of an attempt from before the pause."""
        if now < self.until:
            return
        self.failures += 1
        if (doublings := self.failures - self.free - 1) >= 0:
            self.until = now + min(self.longest_s, self.first_s * 2.0 ** min(doublings, 64))

    def succeed(self) -> None:
        """Forget the failures."""
        self.failures, self.until = 0, float("-inf")
