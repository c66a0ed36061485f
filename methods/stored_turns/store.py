"""A bounded store of turn transitions with seeded sampling."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from agentgym import CreditError, Trajectory

from .transitions import ReturnSpec, StoredEpisode, TurnTransition


class TransitionStore:
    """The transitions of the most recently added episodes.

    Args:
        return_spec: weights of the rewards.
        capacity: maximum number of transitions; the oldest episodes are dropped first.
        half_life: None draws uniformly. Otherwise a transition's chance halves for each `half_life` versions by which
            its weights are older than the newest weights in the store.
        seed: the seed of the draws. The same seed, additions and draws give the same transitions.

    Attributes:
        newest_version: the newest version of the weights among those that sampled the added episodes.
    """

    def __init__(
        self, return_spec: ReturnSpec, *, capacity: int = 10_000, half_life: float | None = None, seed: int = 0
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity = {capacity} is not valid: a store must hold at least one transition.")
        if half_life is not None and not half_life > 0:
            raise ValueError(f"half_life = {half_life} is not valid: give a number above 0, or None to draw uniformly.")
        self.return_spec, self.capacity, self.half_life = return_spec, capacity, half_life
        self._seed, self._draws = seed, 0
        self._episodes: deque[StoredEpisode] = deque()
        self._size = 0
        self.newest_version = 0
        self._index: list[tuple[StoredEpisode, int]] | None = None  # rebuilt after a change

    def __len__(self) -> int:
        """Return the number of stored transitions."""
        return self._size

    def add(self, trajectories: Iterable[Trajectory]) -> None:
        """Add the valid episodes. Raises: CreditError as StoredEpisode.of."""
        for trajectory in trajectories:
            if trajectory.valid:
                self.append(StoredEpisode.of(trajectory, self.return_spec))

    def append(self, episode: StoredEpisode) -> None:
        """Add an episode. The last episode is kept even if it exceeds the capacity."""
        self._episodes.append(episode)
        self._size += len(episode)
        self._index, self.newest_version = None, max(self.newest_version, *episode.versions)
        while self._size > self.capacity and len(self._episodes) > 1:
            self._size -= len(self._episodes.popleft())

    def transitions(self) -> list[TurnTransition]:
        """Return all transitions, oldest episode first."""
        return [episode.transition(turn) for episode, turn in self._all()]

    def sample(self, count: int) -> list[TurnTransition]:
        """Draw `count` distinct transitions, or all if there are fewer, in random order.

        Raises: CreditError if the store is empty.
        """
        held = self._all()
        if not held:
            raise CreditError("The store of transitions is empty. Add episodes before drawing from it.")
        generator = np.random.default_rng([self._seed, self._draws])
        self._draws += 1
        size = min(count, len(held))
        drawn = generator.choice(len(held), size=size, replace=False, p=self._chances(held))
        return [held[index][0].transition(held[index][1]) for index in drawn]

    def state(self) -> dict[str, Any]:
        """Return the state to save in a checkpoint, as JSON-compatible data: episode ids and the number of draws."""
        return {"episodes": [episode.id for episode in self._episodes], "draws": self._draws}

    def load(self, state: Mapping[str, Any], read: Callable[[str], Trajectory]) -> None:
        """Continue from a state that `state` returned.

        Args:
            read: maps an episode's id to its record, such as Ledger.load.
        Raises: what `read` raises for a missing episode.
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
        weights = np.exp2(-np.minimum(ages / self.half_life, 500))  # never 0, so every transition can be drawn
        chances: np.ndarray = weights / weights.sum()
        return chances
