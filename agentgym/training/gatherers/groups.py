"""The groups of a training step: which episodes are trained on, and which only count in metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agentgym.trajectory.record import Trajectory

SAME_RETURN = 1e-9
"""Returns with a standard deviation of at most this are considered equal."""


@dataclass(frozen=True, slots=True)
class GatheredGroup:
    """The episodes of one task in a step.

    Attributes:
        trained: the episodes that are compared with each other and trained on; empty if the group was only played.
            Rows of episodes that were left out, or have not ended yet (see `train.group_quorum`), are invalid.
        left_out: the other episodes that were played. Those of them that had no help count in the metrics and for the
            sampler.
        replayed: ids of episodes in `trained` that an earlier step played. They do not count again.
        untrained_turns: by episode id, the number of initial turns without a loss, because another agent took them.
    """

    trained: list[Trajectory]
    left_out: list[Trajectory] = field(default_factory=list)
    replayed: frozenset[str] = frozenset()
    untrained_turns: Mapping[str, int] = field(default_factory=dict)

    @property
    def episodes(self) -> list[Trajectory]:
        """Return all episodes that this step played to their end."""
        return [t for t in (*self.trained, *self.left_out) if t.stop_reason is not None and t.id not in self.replayed]

    @property
    def unaided(self) -> list[Trajectory]:
        """Return the `episodes` that measure the policy: tasks of the set, played from the start, without help."""
        return [
            episode
            for episode in self.episodes
            if episode.provenance.assistance is None
            and not episode.task.is_of_one_step
            and not self.untrained_turns.get(episode.id)
        ]

    @property
    def returns(self) -> list[float]:
        """Return the returns of the valid trained episodes."""
        return [trajectory.return_from() for trajectory in self.trained if trajectory.valid]

    @property
    def spread(self) -> float:
        """Return the standard deviation of the returns; 0 if fewer than two episodes are valid."""
        return float(np.std(self.returns)) if len(self.returns) > 1 else 0.0

    @property
    def differs(self) -> bool:
        """Return whether the returns differ, so that comparing them gives a gradient."""
        return self.spread > SAME_RETURN

    @property
    def fails_whole(self) -> bool:
        """Return whether the group has valid trained episodes and none of them has any success."""
        successes = [episode.success_or_reward for episode in self.trained if episode.valid]
        return bool(successes) and max(successes) <= 0

    @staticmethod
    def split(trajectories: Sequence[Trajectory], group_size: int) -> list[GatheredGroup]:
        """Split consecutive trajectories into groups in which all episodes are trained."""
        starts = range(0, len(trajectories), group_size)
        return [GatheredGroup(list(trajectories[start : start + group_size])) for start in starts]

    def untrained(self) -> GatheredGroup:
        """Return the group with none of its episodes trained.

        Placeholders take their place, so that the step has as many rows.
        """
        rows = [Trajectory(f"{t.id}-left-out", t.task, t.sample) for t in self.trained]
        return GatheredGroup(rows, self.episodes)

    def without_help(self, episode: Trajectory) -> Trajectory:
        """Return an episode of this task with the prompt of an episode of this group that had no help.

        The log-probabilities remain those under the original prompt, so the loss's importance ratio also corrects for
        the change of prompt. The episode is returned unchanged if no episode without help has begun in this group.
        """
        other = next((t for t in self.episodes if t.opening and t.provenance.assistance is None), None)
        return episode if other is None else replace(episode, opening=other.opening, prompt_ids=list(other.prompt_ids))

    @staticmethod
    def metrics(groups: Sequence[GatheredGroup]) -> dict[str, float]:
        """Return metrics of the episodes that a step played, and of those that it learns from.

        Returns: `gather/episodes` and `gather/groups`, the numbers played; `gather/trained`, the number of valid
            trained episodes; `gather/useful`, the fraction of trained groups whose returns differ; `gather/assisted`,
            the number of valid trained episodes with help, if there are any.
        """
        trained = [group for group in groups if group.trained]
        assisted = sum(t.valid and t.provenance.assistance is not None for group in trained for t in group.trained)
        return {
            **({"gather/assisted": assisted} if assisted else {}),
            "gather/episodes": sum(len(group.episodes) for group in groups),
            "gather/trained": sum(t.valid for group in trained for t in group.trained),
            "gather/groups": sum(bool(group.episodes) for group in groups),
            "gather/useful": sum(group.differs for group in trained) / max(1, len(trained)),
        }
