"""The groups of a training step: which of their episodes are trained on, and which only count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agentgym.trajectory import Trajectory

SAME_RETURN = 1e-9
"""Returns whose standard deviation is no greater are the same."""


@dataclass(frozen=True, slots=True)
class GatheredGroup:
    """The episodes of one task in a step.

    Attributes:
        trained: those that are compared with each other and trained on; none if the group was only played. Rows of
            episodes that were left out, or have not ended yet (see `train.group_quorum`), are not valid.
        left_out: others that were played. They count in the metrics and for the sampler, if nothing helped in them.
        replayed: ids of those of `trained` that an earlier step played. They count in neither.
        untrained_turns: by id, how many turns at the beginning of a trained episode have no loss: others took them.
    """

    trained: list[Trajectory]
    left_out: list[Trajectory] = field(default_factory=list)
    replayed: frozenset[str] = frozenset()
    untrained_turns: Mapping[str, int] = field(default_factory=dict)

    @property
    def episodes(self) -> list[Trajectory]:
        """All that this step played to their ends."""
        return [t for t in (*self.trained, *self.left_out) if t.stop_reason is not None and t.id not in self.replayed]

    @property
    def unaided(self) -> list[Trajectory]:
        """Those of `episodes` that tell how good the policy is: of the set's tasks, from the start, without help."""
        return [
            episode
            for episode in self.episodes
            if episode.provenance.assistance is None
            and not episode.task.is_of_one_step
            and not self.untrained_turns.get(episode.id)
        ]

    @property
    def returns(self) -> list[float]:
        """The returns of the valid episodes that are trained on."""
        return [trajectory.return_from() for trajectory in self.trained if trajectory.valid]

    @property
    def spread(self) -> float:
        """The standard deviation of the returns; 0 if fewer than two episodes are valid."""
        return float(np.std(self.returns)) if len(self.returns) > 1 else 0.0

    @property
    def differs(self) -> bool:
        """Whether the returns differ, so that a comparison within the group teaches something."""
        return self.spread > SAME_RETURN


def in_groups(trajectories: Sequence[Trajectory], group_size: int) -> list[GatheredGroup]:
    """Consecutive trajectories as groups, all of them trained."""
    starts = range(0, len(trajectories), group_size)
    return [GatheredGroup(list(trajectories[start : start + group_size])) for start in starts]


def untrained(group: GatheredGroup) -> GatheredGroup:
    """Return the group with none of its episodes trained on. Its rows stay, because a step has a fixed number of
    them.
    """
    rows = [Trajectory(f"{t.id}-left-out", t.task, t.sample) for t in group.trained]
    return GatheredGroup(rows, group.episodes)


def success_of(episode: Trajectory) -> float:
    """Success; the outcome's reward in an environment that has no such component."""
    return episode.outcome_reward if episode.success is None else episode.success


def fails_whole(group: GatheredGroup) -> bool:
    """Whether no valid episode of a group has any success, and there is one."""
    successes = [success_of(episode) for episode in group.trained if episode.valid]
    return bool(successes) and max(successes) <= 0


def without_help(episode: Trajectory, plain: Sequence[Trajectory]) -> Trajectory:
    """Return the episode as if its prompt had been that of an episode of the same task without help.

    The log-probabilities stay those of the prompt that was read, so the importance ratio of the loss is that between
    the prompts, too. The episode stays as it is if none of `plain` was begun.
    """
    other = next((t for t in plain if t.opening and t.provenance.assistance is None), None)
    return episode if other is None else replace(episode, opening=other.opening, prompt_ids=list(other.prompt_ids))


def gather_metrics(groups: Sequence[GatheredGroup]) -> dict[str, float]:
    """Return what a step played, and what it learns from.

    Returns: `gather/episodes` and `gather/groups`, all that were played; `gather/trained`, the valid episodes that are
        trained on; `gather/useful`, the share of the trained groups whose returns differ. Where there was help,
        `gather/assisted`, the valid trained episodes with any.
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
