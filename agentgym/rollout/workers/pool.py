"""The workers of a run: each plays one episode after another, and whole groups are judged when they are complete."""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agentgym.policy.contract import Policy
from agentgym.rollout.activity import Activity, open_activity
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.engine import Engine, EpisodePlayer, LocalEngine
from agentgym.rollout.episode import EpisodeFactory
from agentgym.rollout.episodes import EpisodeJob
from agentgym.rollout.failures import FailureStreak, refusal_of, too_many_failures
from agentgym.rollout.group_rewards import GroupRewards, HeldGroup
from agentgym.rollout.workers.slots import Slots
from agentgym.rollout.workers.standstill import StandstillWatch
from agentgym.storage.identity import check_task
from agentgym.storage.ledger import Ledger
from agentgym.trajectory.record import Trajectory

_YOUNG, _OLDER = 100_000, (50, 100)
_YOUNG_PER_EPISODE, _MOST_YOUNG = 200, 5_000_000  # a running episode has about 120 objects


class RelaxedGC:
    """Makes automatic collections rare while episodes run.

    The collector scans young objects after every 700 new ones, and all objects when many survive, as those of running
    episodes do: with thousands of them, each turn would cost three times as much as with ten. Records and messages have
    no reference cycles, so they are freed without the collector.

    A collector that is disabled, or already more relaxed, is left unchanged.
    """

    def __init__(self) -> None:
        self._running: list[int] = []
        self._thresholds = gc.get_threshold()

    @contextmanager
    def episodes(self, count: int) -> Iterator[None]:
        """Let the collector expect `count` more running episodes. The last user restores the old thresholds."""
        if not self._running:
            self._thresholds = gc.get_threshold()
        self._running.append(count)
        self._set()
        try:
            yield
        finally:
            self._running.remove(count)
            self._set()

    def _set(self) -> None:
        young = min(_YOUNG + _YOUNG_PER_EPISODE * sum(self._running), _MOST_YOUNG)
        is_relaxed = self._running and 0 < self._thresholds[0] < young
        gc.set_threshold(*((young, *_OLDER) if is_relaxed else self._thresholds))


relaxed_gc = RelaxedGC()
"""The only instance: the thresholds are process-wide, so users are counted per process too."""


@dataclass(frozen=True, slots=True)
class FinishedEpisode:
    """An episode that has ended, or was found in the ledger and is loaded from there when it is yielded."""

    job: EpisodeJob
    is_recorded: bool = False


class WorkerPool:
    """Plays the jobs of one run, `concurrency` of them at once, without waiting for whole batches.

    If a reward judges groups, an episode is held back until its group is complete and judged; other episodes continue.

    Args:
        rollout: says where episodes are played, how many at once, and when failures end the run.
        ledger: stores finished episodes; episodes already in the ledger are yielded, not played again.
        label: the label of the run.
        repeats: whether recorded episodes take part in the batches of the others again, if any is left to play and
            their policy `repeats`. Needs a finite number of jobs.
    """

    def __init__(
        self,
        jobs: Iterator[EpisodeJob],
        episodes: EpisodeFactory,
        groups: GroupRewards,
        rollout: RolloutConfig,
        ledger: Ledger | None,
        label: str,
        *,
        repeats: bool = False,
    ) -> None:
        self._jobs, self._episodes, self._groups, self._rollout, self._label = jobs, episodes, groups, rollout, label
        self._ledger = ledger
        self._slots, self._watch = Slots(rollout.concurrency), StandstillWatch(rollout.stall_warning_s)
        self._activity: Activity  # set while `results` runs
        self._failures = FailureStreak(rollout.max_failures_in_a_row)
        self._player: EpisodePlayer  # the engine's session, set while `results` runs
        self._is_exhausted = False  # no job is left to begin
        self._recorded = ledger.finished(label) if ledger is not None else set()
        self._repeats = repeats and bool(self._recorded)
        if self._repeats:
            waiting = list(jobs)
            self._jobs, self._repeats = iter(waiting), any(job.trajectory.id not in self._recorded for job in waiting)
        self._tasks: set[asyncio.Task[None]] = set()
        self._policies: dict[str, Policy] = {}  # the policies of running episodes, by episode id
        self._finished: deque[FinishedEpisode] = deque()
        # Limit of unread results: all workers may end in one pass of the event loop, before the reader runs.
        self._most_unread = 2 * rollout.concurrency
        self._changed, self._has_room = asyncio.Event(), asyncio.Event()

    async def results(
        self, slots: Slots | None = None, watch: StandstillWatch | None = None
    ) -> AsyncGenerator[tuple[int, Trajectory], None]:
        """Yield each episode when it ends, with its position. When the caller stops, all work is cancelled and awaited.

        Args:
            slots: slots shared with other runs on this event loop, instead of this run's `concurrency` slots.
            watch: shared with other runs: a stall is reported only if no run progresses.
        """
        self._slots, self._watch, self._activity = slots or self._slots, watch or self._watch, open_activity()
        engine: Engine = self._rollout.engine or LocalEngine()
        with relaxed_gc.episodes(self._rollout.concurrency):
            async with self._watch.running(), engine.session(self._episodes) as self._player:
                try:
                    self._begin()
                    while True:
                        while self._finished:
                            finished = self._finished.popleft()
                            self._has_room.set()
                            yield finished.job.position, self._trajectory_of(finished)
                        self._raise_failures()
                        if self._finished:
                            continue
                        if not self._tasks and self._is_exhausted:
                            for group in self._groups.release():
                                self._start(self._judge(group))
                            if not self._tasks:
                                return
                        await self._changed.wait()
                finally:
                    await self._stop()

    def _begin(self) -> None:
        """Start as many workers as there are free slots and jobs.

        All their episodes are announced before any starts, so that a policy that waits for all live episodes sees the
        same batches every time.
        """
        first: list[EpisodeJob] = []
        while self._slots.take():
            job = self._next_job()
            if job is None:
                self._slots.release()
                break
            first.append(job)
        if not self._is_exhausted:
            self._slots.wait(self._begin)
        for job in first:
            self._start(self._work(job)).add_done_callback(lambda _: self._slots.release())
        self._changed.set()

    async def _work(self, job: EpisodeJob | None) -> None:
        """Play one episode after another until no job is left."""
        while job is not None:
            next_job: EpisodeJob | None = None
            trajectory, policy = job.trajectory, self._policies[job.trajectory.id]
            try:
                if trajectory.id in self._recorded:
                    await self._episodes.repeat(self._trajectory_of(FinishedEpisode(job, is_recorded=True)), policy)
                    self._skip(job)
                else:
                    await self._play(job, policy)
                if len(self._finished) < self._most_unread:
                    next_job = self._next_job()  # announced before this one ends, so that the next batch includes it
            finally:
                self._announce_end(trajectory.id)
            if next_job is None:
                while len(self._finished) >= self._most_unread:  # the caller is slow: wait until there is room
                    self._has_room.clear()
                    await self._has_room.wait()
                next_job = self._next_job()
            job = next_job

    async def _play(self, job: EpisodeJob, policy: Policy) -> None:
        """Play an episode, record its end, and pass it to `results`, or hold it until its group is judged."""
        trajectory = job.trajectory
        self._watch.begin(job, self._player, policy)
        self._activity.playing[trajectory.id] = job, self._player, policy
        try:
            await self._player.play(job, policy)
        finally:
            self._activity.end(job)
            self._watch.end(job)
        if job.fork is not None:
            job.fork.fail_if_diverged(trajectory)
        group_reward = self._groups.reward_for(job)
        if self._ledger is not None:
            await self._ledger.finish(trajectory, awaits_group=group_reward is not None)
            self._player.recorded(job)
        self._stop_after_failures(trajectory)
        if group_reward is None:
            self._hand_over(FinishedEpisode(job))
        elif (group := self._groups.hold(job, group_reward)) is not None:
            self._start(self._judge(group))

    def _stop_after_failures(self, trajectory: Trajectory) -> None:
        """End the run after too many failures in a row, or one that all others share; set these episodes aside in the
        ledger.

        Raises: EpisodesFailed with their causes, LimitUnenforceable.
        """
        refusal = refusal_of(trajectory)
        if failed := self._failures.too_many_with(trajectory) or ([trajectory] if refusal else []):
            if self._ledger is not None:
                self._ledger.set_aside(self._label, [t.id for t in failed])
            raise refusal or too_many_failures(failed, is_recorded=self._ledger is not None)

    async def _judge(self, group: HeldGroup) -> None:
        for job in await self._groups.judge(group):
            self._hand_over(FinishedEpisode(job))

    def _next_job(self) -> EpisodeJob | None:
        """Announce the next episode to its policy and return it; skip recorded ones before it (see `_skip`)."""
        for job in self._jobs:
            is_recorded = job.trajectory.id in self._recorded
            if is_recorded and not self._repeats:
                self._skip(job)
                continue
            policy = self._episodes.policy_for(job)
            if is_recorded and not policy.repeats:
                self._skip(job)
                continue
            self._policies[job.trajectory.id] = policy
            policy.episode_started(job.trajectory.id)
            return job
        self._is_exhausted = True
        self._slots.leave(self._begin)
        return None

    def _skip(self, job: EpisodeJob) -> None:
        """Pass a recorded episode to `results`, or hold it if the run was interrupted before its group was judged."""
        finished = FinishedEpisode(job, is_recorded=True)
        group_reward = self._groups.reward_for_recorded(job)
        if group_reward is None:
            self._hand_over(finished)
            return
        loaded_job = EpisodeJob(job.position, self._trajectory_of(finished))
        if (group := self._groups.hold(loaded_job, group_reward)) is not None:
            self._start(self._judge(group))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda _: self._changed.set())
        self._tasks.add(task)
        return task

    def _hand_over(self, finished: FinishedEpisode) -> None:
        self._finished.append(finished)
        self._changed.set()

    def _trajectory_of(self, finished: FinishedEpisode) -> Trajectory:
        if finished.is_recorded and self._ledger is not None:
            recorded = self._ledger.load(finished.job.trajectory.id)
            check_task(recorded, finished.job.trajectory.task)
            return recorded
        return finished.job.trajectory

    def _raise_failures(self) -> None:
        """Forget the asyncio tasks that have ended. Raises: the error of one of them, such as LedgerError."""
        if not self._changed.is_set():
            return
        self._changed.clear()
        ended = {task for task in self._tasks if task.done()}
        self._tasks -= ended
        failures = [failure for task in ended if (failure := task.exception()) is not None]
        if failures:  # several may share one cause; one error is enough
            raise failures[0]

    def _announce_end(self, episode_id: str) -> None:
        if (policy := self._policies.pop(episode_id, None)) is not None:
            policy.episode_ended(episode_id)

    async def _stop(self) -> None:
        self._slots.leave(self._begin)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for episode_id in list(self._policies):  # episodes cancelled before their first step
            self._announce_end(episode_id)
