"""The workers of a run: one episode after another each, results as they finish, groups judged when complete."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from agentgym.policy.contract import Policy
from agentgym.reward import Reward
from agentgym.rollout.branch import Fork
from agentgym.rollout.judging import PENDING
from agentgym.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym.storage.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Job:
    """An episode that is still to be played, with its place in the order of asking."""

    position: int
    trajectory: Trajectory
    fork: Fork | None = None


class GroupJudge(Protocol):
    """Says who judges an episode's group, if anybody does; may have to make an environment to know."""

    def __call__(self, job: Job, make: bool = False) -> Reward | None: ...


@dataclass(frozen=True, slots=True)
class Duties:
    """What the workers do, as the manager says.

    Attributes:
        cast: who plays an episode, told that it is about to begin. `play`: plays and records it.
        group_judge: see GroupJudge. `judge_group`: has a complete group judged and recorded.
    """

    cast: Callable[[Job], Policy]
    play: Callable[[Job, Policy], Awaitable[Trajectory]]
    group_judge: GroupJudge
    judge_group: Callable[[Reward, Sequence[Trajectory]], Awaitable[None]]


class Crew:
    """The workers of one run. Each plays one episode after another until no job is left.

    Where a reward judges groups, an episode is held back until its group is complete and judged; nobody waits for
    that but the group itself.
    """

    def __init__(
        self,
        duties: Duties,
        jobs: Iterator[Job],
        group_size: int,
        concurrency: int,
        ledger: Ledger | None,
        run: str,
    ) -> None:
        self._duties, self._jobs, self._group_size = duties, jobs, group_size
        self._concurrency, self._ledger = concurrency, ledger
        self._groups: dict[int, tuple[Reward, list[tuple[int, Trajectory]]]] = {}  # by number: the incomplete
        self._workers: set[asyncio.Task[None]] = set()
        self._live: dict[str, Policy] = {}  # who was told that which episode began
        self._done: deque[tuple[int, Trajectory | str]] = deque()  # a str is the id of one in the ledger
        # How many may wait to be read: all players may end in one pass of the loop, before the reader's next one.
        self._allowed = 2 * concurrency
        self._changed, self._room = asyncio.Event(), asyncio.Event()
        self._finished = ledger.finished(run) if ledger is not None else set()
        self._pending = ledger.finished(run, noting=PENDING) if ledger is not None else set()

    async def results(self) -> AsyncGenerator[tuple[int, Trajectory], None]:
        """What the workers finish, as they do; everything is stopped and awaited when the caller leaves."""
        workers = self._workers
        try:
            # All first episodes are announced before any begins, so that a policy which waits for all live
            # episodes sees the same batches every time.
            first = [job for _, job in zip(range(self._concurrency), iter(self._next, None), strict=False)]
            for job in first:
                self._set_to_work(self._work(job))
            while True:
                while self._done:
                    position, item = self._done.popleft()
                    self._room.set()
                    yield position, self._loaded(item) if isinstance(item, str) else item
                ended = {worker for worker in workers if worker.done()} if self._changed.is_set() else set()
                self._changed.clear()
                workers -= ended
                failures = [failure for worker in ended if (failure := worker.exception()) is not None]
                if failures:
                    raise failures[0]
                if self._done:
                    continue
                if not workers and not self._groups:
                    return
                if not workers:  # groups without an episode whose environment could not even be asked who judges
                    for number in list(self._groups):
                        self._set_to_work(self._judge(*self._groups.pop(number)))
                await self._changed.wait()
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            for episode in list(self._live):  # those cancelled before their first step
                self._end(episode)

    def _next(self) -> Job | None:
        """The next episode to play, announced to its policy; those in the ledger are handed over instead."""
        for job in self._jobs:
            if job.trajectory.id in self._finished:
                self._skip(job)
                continue
            self._live[job.trajectory.id] = self._duties.cast(job)
            return job
        return None

    def _skip(self, job: Job) -> None:
        """Hand over an episode that is in the ledger; if the run broke off before its group was judged, hold it."""
        episode = job.trajectory.id
        judge = self._duties.group_judge(job, True) if episode in self._pending else None
        if judge is not None:
            self._hold(job.position, self._loaded(episode), judge)
        else:
            self._done.append((job.position, episode))
            self._changed.set()

    def _set_to_work(self, work: Coroutine[Any, Any, None]) -> None:
        worker = asyncio.ensure_future(work)
        worker.add_done_callback(lambda _: self._changed.set())
        self._workers.add(worker)

    def _hold(self, position: int, trajectory: Trajectory, judge: Reward) -> None:
        """Keep an episode until its group is complete; then have the group judged, beside those who play on."""
        number = position // self._group_size
        _, held = self._groups.setdefault(number, (judge, []))
        held.append((position, trajectory))
        if len(held) == self._group_size:
            self._set_to_work(self._judge(*self._groups.pop(number)))

    async def _judge(self, judge: Reward, group: list[tuple[int, Trajectory]]) -> None:
        group.sort(key=lambda item: item[0])
        await self._duties.judge_group(judge, [trajectory for _, trajectory in group])
        self._done.extend(group)
        self._changed.set()

    def _loaded(self, episode: str) -> Trajectory:
        assert self._ledger is not None
        return self._ledger.load(episode)

    def _end(self, episode: str) -> None:
        if (policy := self._live.pop(episode, None)) is not None:
            policy.episode_ended(episode)

    async def _work(self, job: Job | None) -> None:
        while job is not None:
            following: Job | None = None
            episode = job.trajectory.id
            try:
                trajectory = await self._duties.play(job, self._live[episode])
                if (judge := self._duties.group_judge(job)) is not None:
                    self._hold(job.position, trajectory, judge)
                else:
                    self._done.append((job.position, trajectory))
                    self._changed.set()
                if len(self._done) < self._allowed:
                    following = self._next()  # announced before this one ends: no batch in between without it
            finally:
                self._end(episode)
            if following is None:
                while len(self._done) >= self._allowed:  # the caller is slow: wait for room
                    self._room.clear()
                    await self._room.wait()
                following = self._next()
            job = following
