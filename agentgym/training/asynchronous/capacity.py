"""How far playing may be ahead of training."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capacity:
    """Paces playing, so that nothing is played that would be too old to be trained on.

        in flight + queued <= (staleness + version + 1) * groups_per_step - consumed

    Attributes:
        staleness: by how many batches of groups playing may be ahead; 0 plays each batch with the weights it trains.
        groups_per_step: groups of a batch.
        total: groups of the whole training; None without an end.
    Source: the inequality of AReaL, Fu et al. 2025, arXiv:2505.24298, eq. 3, counted in groups.
    """

    staleness: int
    groups_per_step: int
    total: int | None = None

    def room(self, *, version: int, consumed: int, outstanding: int) -> int:
        """How many groups may begin.

        Args:
            version: batches that have been trained on. `consumed`: groups that were handed to the trainer.
            outstanding: groups in flight and queued.
        """
        begun = consumed + outstanding
        allowed = (self.staleness + version + 1) * self.groups_per_step
        if self.total is not None:
            allowed = min(allowed, self.total)
        return max(0, allowed - begun)
