"""A bounded store of turn transitions that a seeded generator draws from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from agentgym.errors import CreditError
from agentgym.training.stored_turns.transitions import ReturnSpec, StoredEpisode, TurnTransition
from agentgym.trajectory import Trajectory


class TransitionStore:
    """Transitions of the last episodes that were added.

    Args:
        return_spec: weights of the rewards.
        capacity: in transitions; the oldest episodes are dropped for new ones.
        half_life: None draws uniformly. Otherwise a transition is half as likely for so many versions that the weights
            which sampled it are older than the newest ones here.
        seed: the seed of the drawing. The same seed, additions and draws give the same transitions.

    Attributes:
        newest_version: of the weights that sampled an episode which was added.
    """

    def __init__(
        self, return_spec: ReturnSpec, *, capacity: int = 10_000, half_life: float | None = None, seed: int = 0
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity = {capacity}: a store holds at least one transition.")
        if half_life is not None and not half_life > 0:
            raise ValueError(f"half_life = {half_life} must be above 0. None draws uniformly.")
        self.return_spec, self.capacity, self.half_life = return_spec, capacity, half_life
        self._seed, self._draws = seed, 0
        self._episodes: deque[StoredEpisode] = deque()
        self._size = 0
        self.newest_version = 0
        self._index: list[tuple[StoredEpisode, int]] | None = None  # made anew after a change

    def __len__(self) -> int:
        """How many transitions it holds."""
        return self._size

    def add(self, trajectories: Iterable[Trajectory]) -> None:
        """Add the valid ones of some episodes. Raises: CreditError as StoredEpisode.of."""
        for trajectory in trajectories:
            if trajectory.valid:
                self.append(StoredEpisode.of(trajectory, self.return_spec))

    def append(self, episode: StoredEpisode) -> None:
        """Add an episode. The last one is kept even if it alone is larger than the capacity."""
        self._episodes.append(episode)
        self._size += len(episode)
        self._index, self.newest_version = None, max(self.newest_version, *episode.versions)
        while self._size > self.capacity and len(self._episodes) > 1:
            self._size -= len(self._episodes.popleft())

    def transitions(self) -> list[TurnTransition]:
        """All of them, oldest episode first."""
        return [episode.transition(turn) for episode, turn in self._all()]

    def sample(self, count: int) -> list[TurnTransition]:
        """Draw `count` different transitions, or all of them where there are fewer, in a random order.

        Raises: CreditError if the store is empty.
        """
        held = self._all()
        if not held:
            raise CreditError("The store of transitions is empty: add episodes before drawing from it.")
        generator = np.random.default_rng([self._seed, self._draws])
        self._draws += 1
        size = min(count, len(held))
        drawn = generator.choice(len(held), size=size, replace=False, p=self._chances(held))
        return [held[index][0].transition(held[index][1]) for index in drawn]

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, as plain data for JSON: which episodes are held, and how often was drawn."""
        return {"episodes": [episode.id for episode in self._episodes], "draws": self._draws}

    def load(self, state: Mapping[str, Any], read: Callable[[str], Trajectory]) -> None:
        """Continue from a `state`.

        Args:
            read: from the id of an episode to its record, as Ledger.load.
        Raises: what `read` raises for an episode that is not there.
        """
        self._episodes.clear()
        self._size, self._draws, self._index = 0, int(state["draws"]), None
        self.add(read(episode) for episode in state["episodes"])

    def _all(self) -> list[tuple[StoredEpisode, int]]:
        if self._index is None:
            self._index = [(episode, turn) for episode in self._episodes for turn in range(len(episode))]
        return self._index

    def _chances(self, held: list[tuple[StoredEpisode, int]]) -> np.ndarray | None:
        if self.half_life is None:
            return None
        ages = self.newest_version - np.array([episode.versions[turn] for episode, turn in held], np.float64)
        weights = np.exp2(-np.minimum(ages / self.half_life, 500))  # never exactly 0: every one can be drawn
        chances: np.ndarray = weights / weights.sum()
        return chances
