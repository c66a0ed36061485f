"""Plays many episodes at once: a concurrency limit, no batch barrier, results as they finish."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from agentgym import __version__
from agentgym.environment import Checkpoint, Environment
from agentgym.episode.branch import Divergence, Ended, Fork, Recorded, differs, ended_otherwise
from agentgym.episode.budgets import Budgets
from agentgym.episode.collector import calm_collector
from agentgym.episode.loop import Episode
from agentgym.episode.restored import Restored
from agentgym.episode.setting import Setting
from agentgym.episode.trajectory import Trajectory
from agentgym.messages import StopReason
from agentgym.policy.contract import Policy, Sampling
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.registry import load_reward, make
from agentgym.reward import Reward
from agentgym.sandbox.contract import Backend
from agentgym.task import Task, seed_of

if TYPE_CHECKING:
    from agentgym.episode.ledger import Ledger

Checkpoints = dict[tuple[str, int, int], Checkpoint | None]
"""By task id, sample, and the turn before which the checkpoint was taken; None where none was."""


@dataclass(frozen=True, slots=True)
class _Job:
    """An episode that is still to be played, with its place in the order of asking."""

    position: int
    trajectory: Trajectory
    fork: Fork | None = None


class EpisodeManager:
    """Plays tasks with a policy and yields their trajectories.

    Args:
        policy: who plays; or a function from a task to the policy that plays it.
        reward: who judges: a Reward, a registered name, or None for what the environment declares.
        environment: None for each task's own registered id; another id; or a function that makes one.
        budgets: bounds of each episode. `sampling`: how the policy samples; its seed is replaced for each turn.
        concurrency: episodes, and so environments, that exist at once.
        ledger: keeps every turn on disk; finished episodes found in it are yielded, not played again.
        seed: together with run, task, sample and turn it seeds every request; with the task alone, the
            environment, so that the episodes of a group meet the same world.
        run: begins the id of every trajectory.
        backend: makes the sandboxes; a name or a Backend, by default `namespaces`.
        environment_options: passed to the environment's constructor.
        checkpoints: with a key (task id, sample, turn) for each that is wanted, of the world before that turn; filled
            in while the episodes are played. For forks.
    Raises: UnknownNameError for an unknown reward; ValueError for a concurrency below 1.
    """

    def __init__(
        self,
        policy: Policy | Callable[[Task], Policy],
        *,
        reward: Reward | str | None = None,
        environment: str | Callable[..., Environment] | None = None,
        budgets: Budgets = Budgets(),  # noqa: B008  frozen
        sampling: Sampling = Sampling(),  # noqa: B008  frozen
        concurrency: int = 64,
        ledger: Ledger | None = None,
        seed: int = 0,
        run: str = "run",
        backend: Backend | str | None = None,
        environment_options: dict[str, Any] | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency!r}: at least one episode has to play.")
        self._policy, self._concurrency, self._ledger = policy, concurrency, ledger
        self._seed, self._run = seed, run
        self._reward = load_reward(reward) if isinstance(reward, str) else reward
        self._environment, self._backend = environment, backend
        self._options = dict(environment_options or {})
        self._provenance = {
            "agentgym": __version__, "seed": seed, "temperature": sampling.temperature, "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
        }  # fmt: skip
        declared = cache(load_reward)
        self._setting = Setting(
            make_environment=self._make,
            reward_for=lambda world: self._reward or (declared(world.reward) if world.reward else None),
            budgets=budgets, sampling=sampling, seed_parts=(seed, run), ledger=ledger,
            keep=None if checkpoints is None else partial(_keep, checkpoints),
        )  # fmt: skip

    async def collect(
        self, tasks: Iterable[Task], group_size: int = 1, *, seen: Callable[[Trajectory], None] | None = None
    ) -> list[Trajectory]:
        """Play every task `group_size` times. Returns: trajectories by task, in the order given, then sample.

        `seen` is called with each trajectory as it ends, for a progress bar.
        """
        found: list[tuple[int, Trajectory]] = []
        async with aclosing(self._play(self._jobs(tasks, group_size), group_size)) as playing:
            async for item in playing:
                found.append(item)
                if seen is not None:
                    seen(item[1])
        return [trajectory for _, trajectory in sorted(found, key=lambda item: item[0])]

    async def run(self, tasks: Iterable[Task], group_size: int = 1) -> AsyncIterator[Trajectory]:
        """Play every task `group_size` times and yield each trajectory when it ends.

        Tasks are taken from the iterable only when there is room to play them. When the caller stops early
        (use `contextlib.aclosing`) or is cancelled, the episodes in progress are cancelled, their environments
        closed, and nothing of them is yielded or recorded as finished.

        Raises: LedgerError when the record cannot be written; all episodes are stopped then.
        """
        async with aclosing(self._play(self._jobs(tasks, group_size), group_size)) as playing:
            async for _, trajectory in playing:
                yield trajectory

    async def branch(self, forks: Iterable[Fork], samples: int = 1) -> AsyncIterator[Trajectory]:
        """Continue saved trajectories from their forks, `samples` times each, and yield each when it ends.

        The turns before a fork are repeated as recorded, and checked (see `agentgym.episode.branch`). Where the
        world no longer answers the same, the branch fails with ReplayDiverged: it is yielded, and not valid.
        `provenance["branch"]` says which trajectory and turn it left. Raises and stops: as `run`.
        """
        async with aclosing(self._play(self._branches(forks, samples), samples)) as playing:
            async for _, trajectory in playing:
                yield trajectory

    async def replay(self, record: Trajectory) -> Divergence | None:
        """Run a saved trajectory's calls again in a fresh world. Returns: the first divergence, None if it is equal."""
        fork = Fork(record, len(record.turns))
        budgets = replace(self._setting.budgets, infra_retries=0)
        setting = replace(self._setting, budgets=budgets, reward_for=lambda world: None, ledger=None)
        played = Trajectory(f"replay/{record.id}", record.task, record.sample, record.seed)
        await Episode(setting, Recorded(fork, Ended()), played).play()
        return differs(record, played, len(record.turns)) or ended_otherwise(record, played)

    async def replay_turns(self, record: Trajectory, turns: Collection[int]) -> Trajectory:
        """Say only these turns of a saved trajectory again, in a fresh world, and judge what comes of it.

        What the left-out turns would have prepared is not there: a call that needed it gets the world's own error.
        Raises: ValueError for no turn at all.
        """
        said = [record.turns[turn].message for turn in sorted(turns)]
        if not said:
            raise ValueError(f"No turn of {record.id!r} was chosen: an episode has at least one.")
        setting = replace(
            self._setting, budgets=replace(self._setting.budgets, max_turns=len(said)), ledger=None
        )  # fmt: skip
        played = Trajectory(f"replay/{record.id}", record.task, record.sample, record.seed)
        played.provenance = {**self._provenance, "replay": {"of": record.id, "turns": sorted(turns)}}
        return await Episode(setting, ScriptedPolicy(said, name="replay"), played).play()

    async def _play(self, jobs: Iterator[_Job], group_size: int) -> AsyncGenerator[tuple[int, Trajectory], None]:
        if group_size < 1:
            raise ValueError(f"group_size is {group_size!r}: a task is played at least once.")
        crew = _Crew(self, jobs)
        with calm_collector():
            async with aclosing(crew.results()) as results:
                async for item in results:
                    yield item

    def _jobs(self, tasks: Iterable[Task], group_size: int) -> Iterator[_Job]:
        """Every episode to play, lazily. A task that comes again gets new sample numbers, so ids stay unique."""
        seen: Counter[str] = Counter()
        position = 0
        for task in tasks:
            for _ in range(group_size):
                sample = seen[task.id]
                seen[task.id] += 1
                trajectory = Trajectory(
                    f"{self._run}/{task.id}#{sample}", task, sample, seed_of(self._seed, task.id)
                )  # fmt: skip
                yield _Job(position, trajectory)
                position += 1

    def _branches(self, forks: Iterable[Fork], samples: int) -> Iterator[_Job]:
        """Every continuation to play, lazily, with sample numbers that no two of a task share."""
        seen: Counter[str] = Counter()
        position = 0
        for fork in forks:
            origin = fork.trajectory
            for _ in range(samples):
                sample = seen[origin.task.id]
                seen[origin.task.id] += 1
                name = f"{self._run}/{origin.id}@{fork.turn}#{sample}"
                yield _Job(position, Trajectory(name, origin.task, sample, origin.seed), fork)
                position += 1

    def _make(self, task: Task) -> Environment:
        if callable(self._environment):
            return self._environment(**self._options)
        return make(self._environment or task.environment, backend=self._backend, **self._options)

    def _cast(self, job: _Job) -> Policy:
        """Who plays the episode, told that it is about to begin."""
        policy = self._policy if isinstance(self._policy, Policy) else self._policy(job.trajectory.task)
        policy = policy if job.fork is None else Recorded(job.fork, policy)
        policy.episode_started(job.trajectory.id)
        return policy

    def _setting_of(self, job: _Job) -> Setting:
        fork = job.fork
        if fork is None or fork.checkpoint is None:
            return self._setting
        checkpoint = fork.checkpoint
        return replace(
            self._setting,
            make_environment=lambda task: Restored(self._make(task), fork.trajectory, fork.turn, checkpoint),
        )

    async def _episode(self, job: _Job, policy: Policy) -> Trajectory:
        trajectory = job.trajectory
        trajectory.provenance = {**self._provenance, "policy": policy.name}
        if job.fork is not None:
            trajectory.provenance["branch"] = {"of": job.fork.trajectory.id, "turn": job.fork.turn}
        await Episode(self._setting_of(job), policy, trajectory).play()
        if job.fork is not None and trajectory.valid:
            _void_if_diverged(job.fork, trajectory)
        if self._ledger is not None:
            await self._ledger.finish(trajectory)
        return trajectory


def _keep(checkpoints: Checkpoints, trajectory: Trajectory, turn: int, checkpoint: Checkpoint) -> None:
    if (key := (trajectory.task.id, trajectory.sample, turn)) in checkpoints:
        checkpoints[key] = checkpoint


def _void_if_diverged(fork: Fork, branch: Trajectory) -> None:
    """A branch whose first turns had other states than the record's is no other ending of it."""
    found = differs(fork.trajectory, branch, fork.turn)
    if found is not None:
        branch.stop_reason, branch.outcome, branch.error = StopReason.INFRA_ERROR, {}, f"ReplayDiverged: {found}"


class _Crew:
    """The workers of one run. Each plays one episode after another until no job is left."""

    def __init__(self, manager: EpisodeManager, jobs: Iterator[_Job]) -> None:
        self._manager, self._jobs = manager, jobs
        self._live: dict[str, Policy] = {}  # who was told that which episode began
        self._done: deque[tuple[int, Trajectory | str]] = deque()  # a str is the id of one in the ledger
        # How many may wait to be read: all players may end in one pass of the loop, before the reader's next one.
        self._allowed = 2 * manager._concurrency
        self._changed, self._room = asyncio.Event(), asyncio.Event()
        ledger = manager._ledger
        self._finished = ledger.finished(manager._run) if ledger is not None else set()

    async def results(self) -> AsyncGenerator[tuple[int, Trajectory], None]:
        """What the workers finish, as they do; everything is stopped and awaited when the caller leaves."""
        workers: set[asyncio.Task[None]] = set()
        try:
            # All first episodes are announced before any begins, so that a policy which waits for all live
            # episodes sees the same batches every time.
            first = [job for _, job in zip(range(self._manager._concurrency), iter(self._next, None), strict=False)]
            for job in first:
                worker = asyncio.ensure_future(self._work(job))
                worker.add_done_callback(lambda _: self._changed.set())
                workers.add(worker)
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
                if not workers:
                    return
                await self._changed.wait()
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            for episode in list(self._live):  # those cancelled before their first step
                self._end(episode)

    def _next(self) -> _Job | None:
        """The next episode to play, announced to its policy; those in the ledger are handed over instead."""
        for job in self._jobs:
            if job.trajectory.id in self._finished:
                self._done.append((job.position, job.trajectory.id))
                self._changed.set()
                continue
            self._live[job.trajectory.id] = self._manager._cast(job)
            return job
        return None

    def _loaded(self, episode: str) -> Trajectory:
        assert self._manager._ledger is not None
        return self._manager._ledger.load(episode)

    def _end(self, episode: str) -> None:
        if (policy := self._live.pop(episode, None)) is not None:
            policy.episode_ended(episode)

    async def _work(self, job: _Job | None) -> None:
        while job is not None:
            following: _Job | None = None
            episode = job.trajectory.id
            try:
                trajectory = await self._manager._episode(job, self._live[episode])
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
