"""The episodes that a ledger keeps, for callers that are not async."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from agentgym.storage.ledger import Ledger
from agentgym.training.rollouts.episode_loop import EpisodeLoop
from agentgym.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class EpisodeRecords:
    """Reads and amends the episodes of a ledger where they are played, as two threads must not use it at once."""

    ledger: Ledger
    loop: EpisodeLoop

    def load(self, name: str) -> Trajectory:
        """Return an episode by its id. Raises: LedgerError if the ledger has none."""
        return self.loop.call(partial(self.ledger.load, name))

    def labelled(self, label: str) -> list[Trajectory]:
        """Return the finished episodes whose ids begin with a label."""
        return self.loop.call(lambda: list(self.ledger.trajectories(label)))

    def amend(self, trajectories: Sequence[Trajectory]) -> None:
        """Write the outcomes and the ends of episodes again, which were changed since they were recorded."""
        self.loop.call(partial(self.ledger.amend, trajectories))
