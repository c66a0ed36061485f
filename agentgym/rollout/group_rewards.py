"""Rewards that judge a group's episodes together: hold episodes back, judge the group, and store the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from agentgym.messages import StopReason
from agentgym.reward import validate_each
from agentgym.reward.contract import Reward
from agentgym.rollout.budgets import Budgets
from agentgym.rollout.episodes import EpisodeConfig, EpisodeJob
from agentgym.rollout.failures import cause_of
from agentgym.rollout.judging import Judge
from agentgym.storage.ledger import Ledger
from agentgym.trajectory.record import Trajectory


@dataclass(slots=True)
class HeldGroup:
    """The ended episodes of a group, and the reward that will judge them when all have ended."""

    reward: Reward
    jobs: list[EpisodeJob] = field(default_factory=list)


class GroupRewards:
    """Holds episodes back until their group is complete, has the group judged, and stores the verdict in the ledger.

    The ledger marks an episode that waits for its group; an interrupted run judges the group when it resumes.

    Args:
        config: the shared config of the episodes.
        label: the label of the run.
    """

    def __init__(self, config: EpisodeConfig, group_size: int, ledger: Ledger | None, label: str) -> None:
        self._environments, self._budgets, self._weights = config.environments, config.budgets, config.added_weights
        self._group_size, self._ledger = group_size, ledger
        self._incomplete: dict[int, HeldGroup] = {}
        self._awaiting = ledger.awaiting_group(label) if ledger is not None else set()

    def reward_for(self, job: EpisodeJob) -> Reward | None:
        """Return the reward that judges the episode's group; None if none does. Branches are in no group."""
        return None if job.fork is not None else self._environments.group_reward(job.trajectory.task)

    def reward_for_recorded(self, job: EpisodeJob) -> Reward | None:
        """Return the reward for the group of an episode from the ledger; None if the group was already judged."""
        if job.fork is not None or job.trajectory.id not in self._awaiting:
            return None
        return self._environments.group_reward(job.trajectory.task, make=True)

    def hold(self, job: EpisodeJob, reward: Reward) -> HeldGroup | None:
        """Hold an episode back. Returns: its group, if now complete and ready to be judged; else None."""
        number = job.position // self._group_size
        group = self._incomplete.setdefault(number, HeldGroup(reward))
        group.jobs.append(job)
        return self._incomplete.pop(number) if len(group.jobs) == self._group_size else None

    def release(self) -> Iterator[HeldGroup]:
        """Yield the incomplete groups: some of their episodes were not held, because the reward was unknown."""
        while self._incomplete:
            yield self._incomplete.popitem()[1]

    async def judge(self, group: HeldGroup) -> list[EpisodeJob]:
        """Judge a group and store the verdict. Returns: its episodes, by position."""
        group.jobs.sort(key=lambda job: job.position)
        trajectories = [job.trajectory for job in group.jobs]
        await judge_group(group.reward, trajectories, self._budgets, self._weights)
        if self._ledger is not None:
            self._ledger.amend(trajectories)
        return group.jobs


async def judge_group(
    reward: Reward, group: Sequence[Trajectory], budgets: Budgets, weights: Mapping[str, float] = {}
) -> None:
    """Judge the valid episodes of a complete group together, and add the reward's components to their outcomes.

    If the reward cannot judge, all these episodes are marked failed, because they cannot be compared.
    """
    valid = [trajectory for trajectory in group if trajectory.valid]
    if not valid:
        return
    retries_left = budgets.infra_retries

    def retry(error: Exception) -> bool:
        nonlocal retries_left
        retries_left -= 1
        return retries_left >= 0

    judge = Judge(reward, budgets.time_s, retry, weights)
    try:
        answers = await judge.ask(reward.group, valid, check=partial(validate_each, count=len(valid)))
        outcomes = [judge.merge(t.outcome, components) for t, components in zip(valid, answers, strict=True)]
        for trajectory, outcome in zip(valid, outcomes, strict=True):
            trajectory.outcome = outcome
            trajectory.weights = judge.weights_for(trajectory)
    except Exception as error:  # noqa: BLE001  a judge may raise anything; none of it is the agent's fault
        for trajectory in valid:
            trajectory.stop_reason, trajectory.outcome = StopReason.INFRA_ERROR, {}
            trajectory.error = cause_of(error, "judging the group")
