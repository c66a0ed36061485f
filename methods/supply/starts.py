"""Groups that begin in the middle of a solved episode, and with growing success nearer to its beginning."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from agentgym import AgentGymError, Trajectory, seed_of
from agentgym.options import Count, Share
from agentgym.rollout import Fork
from agentgym.training import Exclusion, TrainingPlan
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest

from .begun_groups import begun_groups, turn_schedules


class Starts(GathererWrapper):
    """Plays some groups from a turn of a recorded success, to learn tasks that never succeed from the start.

    At first one turn is left to play. Once the mean success of the last `groups` of these groups reaches `solved`, one
    more turn is left, up to whole episodes (a reverse curriculum). The turns before are repeated as recorded, in a
    fresh environment, and compared; they are not trained on. All episodes of a group begin at the same turn, and an
    estimator's bias class holds for the turns from there on. The group does not teach how to get there, so a run also
    needs groups from the start.

    The successes are episodes of this run whose ids begin with `label`: play them in an earlier stage `collect`, for
    example by the oracle, or use the demonstrations of a warm start, "demonstration-oracle". Tasks without any are
    played from the start.

    With `uniform` a group begins within any recorded episode of its task, also a failed one, at any turn; all are
    equally likely, and there is no curriculum (dataset resets).

    Args:
        label: prefix of the recorded episodes' ids.
        share: the share of the groups that begin in the middle, if there is an episode to begin with.
        solved: mean success at which one more turn is left.
        groups: number of groups in this mean.
        uniform: as above.
    Source: reverse curriculum, Florensa et al. 2017, arXiv:1707.05300; from demonstrations, Salimans and Chen 2018,
        arXiv:1812.03381. `uniform`: DR-PO, Chang et al. 2024, arXiv:2404.08495; from descriptions, not checked against
        its code. The constants are ours.
    """

    excludes: ClassVar[tuple[Exclusion, ...]] = (
        GathererWrapper.background_play,
        GathererWrapper.group_rewards,
        turn_schedules,
    )

    def __init__(
        self,
        inner: Gatherer,
        *,
        label: str = "collect",
        share: Share = 0.5,
        solved: Share = 0.6,
        groups: Count = 4,
        uniform: bool = False,
    ) -> None:
        super().__init__(inner)
        self._label, self._share, self._solved, self._groups = label, share, solved, groups
        self._uniform = uniform
        self._recorded: dict[str, list[Trajectory]] | None = None
        self.turns_left = 1
        self._recent: list[float] = []

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        label, known = self._label, plan.recorded_labels
        if known is not None and not any(own.startswith(label) or label.startswith(f"{own}-") for own in known):
            yield (
                f"train.gather = {plan.train.gather}: no stage before {plan.stage!r} records episodes whose ids begin "
                f"with {label!r}. Put a stage `collect` of this name before it, for example with options = {{ policy = "
                "'oracle' }, or name the demonstrations of a warm start, 'demonstration-oracle'."
            )

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step, the groups that begin in the middle first."""
        forks = self._forks(step)
        begun = begun_groups(step, list(forks.values()), f"{step.label}-start")
        rest = [task for row, task in enumerate(step.tasks) if row not in forks]
        if not self._uniform:
            self._learn(begun)
        return [*begun, *(self.inner(replace(step, tasks=rest)) if rest else ())]

    def _forks(self, step: StepRequest) -> dict[int, Fork]:
        """Return, by the position of the task in the step, where its group begins.

        A task that occurs twice is forked once, so that ids of branches are unique.
        """
        recorded = self._load(step)
        draws = random.Random(seed_of("starts", step.label))
        forks: dict[int, Fork] = {}
        begun: set[str] = set()
        for row, task in enumerate(step.tasks):
            chosen = draws.random() < self._share
            if chosen and task.id in recorded and task.id not in begun:
                forks[row] = self._fork(recorded[task.id], draws)
                begun.add(task.id)
        return forks

    def _fork(self, episodes: Sequence[Trajectory], draws: random.Random) -> Fork:
        if self._uniform:
            return Fork(*draws.choice([(episode, turn) for episode in episodes for turn in range(len(episode.turns))]))
        return Fork(episodes[0], max(0, len(episodes[0].turns) - self.turns_left))

    def _learn(self, groups: Sequence[GatheredGroup]) -> None:
        for group in groups:
            successes = [episode.success for episode in group.trained if episode.valid and episode.success is not None]
            if successes:
                self._recent.append(float(np.mean(successes)))
        self._recent = self._recent[-self._groups :]
        if len(self._recent) == self._groups and np.mean(self._recent) >= self._solved:
            self.turns_left, self._recent = self.turns_left + 1, []

    def _load(self, step: StepRequest) -> dict[str, list[Trajectory]]:
        """Return the recorded successes of each task or, with `uniform`, all its recorded episodes.

        Raises: AgentGymError if there are none.
        """
        if self._recorded is None:
            records = step.rollouts.records
            self._recorded = {}
            for episode in records.labelled(self._label) if records is not None else ():
                if episode.valid and (self._uniform or (episode.success or 0) >= 1) and episode.turns:
                    self._recorded.setdefault(episode.task.id, []).append(episode)
            if not self._recorded:
                sought = "episode" if self._uniform else "success"
                raise AgentGymError(
                    f"train.gather: starts(label={self._label!r}) found no {sought} among this run's episodes with "
                    "this label. Put a stage `collect` before this one, such as options = { policy = 'oracle' }, "
                    "and give its name as the label."
                )
        return self._recorded

    @override
    def state(self) -> dict[str, Any]:
        return {"turns_left": self.turns_left, "recent": self._recent}

    @override
    def load(self, state: Mapping[str, Any]) -> None:
        self.turns_left, self._recent = state["turns_left"], state["recent"]
