"""Groups that begin within episodes of earlier steps, at turns from which the policy succeeds sometimes but not
always.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, ClassVar

from typing_extensions import override

from agentgym import AgentGymError, Trajectory, seed_of
from agentgym.options import Count, Share
from agentgym.rollout import Fork
from agentgym.training import Exclusion
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest

from .begun_groups import begun_groups, turn_schedules


@dataclass(slots=True)
class Prefix:
    """The first turns of an episode, from which groups may begin.

    Attributes:
        episode: the episode's id in the ledger.
        turns: the number of turns.
        words: a hash of the task and of what the policy wrote; equal prefixes have equal hashes.
        priority: variance of the returns of the last group played from the prefix, or of the group in which it was
            found; 0 for a prefix from which the policy always or never succeeds.
    """

    episode: str
    turns: int
    words: int
    priority: float


class PrefixBuffer(GathererWrapper):
    """Plays some groups from a turn of an earlier episode, where the returns of a group differed.

    If the returns of a group differ, every turn of its episodes becomes a candidate, with the variance of these returns
    as its priority. A drawn candidate is played by a group of its own: the variance of that group becomes the
    candidate's priority, and the group's turns become candidates. Candidates are drawn in proportion to their priority,
    so a prefix from which the policy always or never succeeds is not drawn again. If there are more than `capacity`,
    those with the lowest priority are dropped, on ties the earliest found.

    The turns of the prefix are repeated in a fresh environment, and their results are compared with the recorded ones.
    These turns are not trained on. The policy took them itself, perhaps with older weights. Within a group, the bias
    class that an estimator declares (docs/credit.md) holds for the turns after the prefix, but the mean over groups
    covers other starts than the task's own. Groups from the start are needed too: turns that are never met never become
    candidates.

    Args:
        share: the share of the groups that begin with a prefix, while there are any prefixes.
        capacity: the most prefixes that are stored.
    Source: ExIt, Jiang et al. 2025, arXiv:2509.04575: a buffer of partial histories with the variance of a group's
        returns as priority. That a new candidate inherits the variance of its group is our choice.
    """

    excludes: ClassVar[tuple[Exclusion, ...]] = (
        GathererWrapper.background_play,
        GathererWrapper.group_rewards,
        turn_schedules,
    )

    def __init__(self, inner: Gatherer, *, share: Share = 0.5, capacity: Count = 256) -> None:
        super().__init__(inner)
        self._share, self._capacity = share, capacity
        self.prefixes: dict[int, Prefix] = {}

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather the groups of a step; those that begin with a prefix come first."""
        rows = self._rows(step)
        drawn = self._draw(step, len(rows))
        begun = begun_groups(step, [self._fork(step, prefix) for prefix in drawn], f"{step.label}-prefix")
        replaced = set(rows[: len(drawn)])
        rest = [task for row, task in enumerate(step.tasks) if row not in replaced]
        groups = [*begun, *(self.inner(replace(step, tasks=rest)) if rest else ())]
        for prefix, group in zip(drawn, begun, strict=True):
            prefix.priority = group.spread**2 if group.differs else 0.0
        for group in groups:
            self._add(group)
        return groups

    def _rows(self, step: StepRequest) -> list[int]:
        """Return the positions of the tasks that may be replaced by groups with a prefix."""
        draws = random.Random(seed_of("prefix_buffer", "rows", step.label))
        return [row for row in range(len(step.tasks)) if draws.random() < self._share]

    def _draw(self, step: StepRequest, count: int) -> list[Prefix]:
        """Draw up to this many prefixes, without repetition."""
        draws = random.Random(seed_of("prefix_buffer", step.label))
        left = [prefix for prefix in self.prefixes.values() if prefix.priority > 0]
        drawn: list[Prefix] = []
        while left and len(drawn) < count:
            position = draws.choices(range(len(left)), [prefix.priority for prefix in left])[0]
            drawn.append(left.pop(position))
        return drawn

    def _fork(self, step: StepRequest, prefix: Prefix) -> Fork:
        if (records := step.rollouts.records) is None:
            raise AgentGymError(
                f"train.gather: prefix_buffer cannot read the episode {prefix.episode!r}, because this run keeps no "
                "ledger. Give the run a ledger, or leave prefix_buffer out."
            )
        return Fork(records.load(prefix.episode), prefix.turns)

    def _add(self, group: GatheredGroup) -> None:
        """Add the turns of a group whose returns differ."""
        if not group.differs:
            return
        for episode in group.trained:
            if episode.valid and episode.id not in group.replayed and episode.provenance.assistance is None:
                for turns in range(group.untrained_turns.get(episode.id, 0) + 1, len(episode.turns)):
                    words = hash_of_words(episode, turns)
                    self.prefixes.setdefault(words, Prefix(episode.id, turns, words, group.spread**2))
        # a stable sort, so the prefix met first is dropped first
        ordered = sorted(self.prefixes.values(), key=lambda prefix: prefix.priority)
        for prefix in ordered[: max(0, len(ordered) - self._capacity)]:
            del self.prefixes[prefix.words]

    @override
    def state(self) -> dict[str, Any]:
        # the prefixes in their order; the ledger keeps the episodes
        return {"prefixes": [astuple(prefix) for prefix in self.prefixes.values()]}

    @override
    def load(self, state: Mapping[str, Any]) -> None:
        self.prefixes = {prefix.words: prefix for prefix in (Prefix(*values) for values in state["prefixes"])}


def hash_of_words(episode: Trajectory, turns: int) -> int:
    """Return a hash of the task and of what the policy wrote in the first turns."""
    written = [(t.message.text, [(c.name, c.arguments) for c in t.message.calls]) for t in episode.turns[:turns]]
    return seed_of("prefix", episode.task.id, repr(written))
