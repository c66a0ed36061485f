"""Replay the episodes of a step that the infrastructure failed."""

from __future__ import annotations

from typing import ClassVar

from agentgym import EpisodesFailed
from agentgym.options import Count
from agentgym.training import Exclusion
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest


class Refill(GathererWrapper):
    """Plays again the episodes that failed because of the infrastructure, so that groups are whole.

    Failures caused by an agent are results and stay. An estimator's bias class holds if the infrastructure's failures
    do not depend on what the agent does. If some actions make it fail, episodes without these actions are favoured:
    inspect the run's failures if there are many.

    Args:
        times: how often an episode is played again.
    """

    excludes: ClassVar[tuple[Exclusion, ...]] = (GathererWrapper.background_play, GathererWrapper.group_rewards)

    def __init__(self, inner: Gatherer, *, times: Count = 1) -> None:
        super().__init__(inner)
        self._times = times

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step. Failed episodes that were replaced are left out."""
        groups = self.inner(step)
        for attempt in range(1, self._times + 1):
            failed = [
                (group, row)
                for group in groups
                for row, episode in enumerate(group.trained)
                if not episode.valid and episode.stop_reason is not None
            ]
            if not failed:
                break
            try:
                repeated = step.play(
                    [group.trained[row].task for group, row in failed], f"{step.label}-again{attempt}", 1
                )
            except EpisodesFailed:  # only the replays failed; a step without any episode would have ended before
                continue
            for (group, row), episode in zip(failed, repeated, strict=True):
                if episode.valid:
                    group.left_out.append(group.trained[row])
                    group.trained[row] = episode
        return groups
