"""Plays the episodes of a training run on one event loop that lives as long as the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from types import TracebackType

from agentgym import registry
from agentgym.policy.contract import Policy, Sampling
from agentgym.reward import Reward
from agentgym.rollout.branch import Ended, Fork
from agentgym.rollout.budgets import Budgets
from agentgym.rollout.manager import Checkpoints, EpisodeManager
from agentgym.sandbox.contract import Backend
from agentgym.sandbox.pool import Pool
from agentgym.storage.ledger import Ledger
from agentgym.task import Task
from agentgym.trajectory import Trajectory

_SILENT = Ended()


class Rollouts:
    """The episode manager for callers that are not async, as trainers are.

    Sandboxes, sockets and batchers belong to an event loop, so all episodes of a run share one.

    Args:
        reward: a Reward, a registered name, or None for each environment's own.
        budgets, concurrency, backend, seed: as for EpisodeManager.
        pool: keep so many sandboxes of each kind ready ahead of time; 0 makes each when it is asked for.
        ledger: where every turn is recorded; a run label seen before is read back instead of played again.
    """

    def __init__(
        self,
        *,
        reward: Reward | str | None = None,
        budgets: Budgets | None = None,
        concurrency: int = 64,
        backend: str | None = None,
        pool: int = 0,
        seed: int = 0,
        ledger: Ledger | None = None,
    ) -> None:
        self.reward = registry.load_reward(reward) if isinstance(reward, str) else reward  # one for the whole run
        self.budgets, self.concurrency = budgets or Budgets(), concurrency
        self.seed, self.ledger = seed, ledger
        self.backend: Backend | str | None = backend
        if pool:
            self.backend = Pool(registry.load("backends", backend or registry.DEFAULT_BACKEND)(), ready=pool)
        self._runner = asyncio.Runner()

    def play(
        self,
        policy: Policy | Callable[[Task], Policy],
        tasks: Sequence[Task],
        *,
        run: str,
        group_size: int = 1,
        sampling: Sampling = Sampling(),  # noqa: B008 - frozen
        record: bool = True,
        progress: float | None = None,
        seen: Callable[[Trajectory], None] | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> list[Trajectory]:
        """Play every task `group_size` times and wait for all of them.

        Args:
            run: label of this batch; with the task and the sample it names the episode and seeds it.
            record: write the episodes to the ledger.
            progress: how much of the training is done, 0 to 1: the reward's schedules follow it.
            seen: called with each trajectory as it finishes, for a progress bar.
            checkpoints: those that are wanted, filled in (see EpisodeManager).
        Returns: [len(tasks) * group_size] trajectories, groups consecutive, in the order of the tasks.
        """
        if progress is not None and isinstance(self.reward, Reward):
            self.reward.set_progress(progress)
        manager = self._manager(policy, run, sampling, self.ledger if record else None, checkpoints)
        return self._runner.run(manager.collect(tasks, group_size, seen=seen))

    def branch(
        self, policy: Policy, forks: Sequence[Fork], samples: int, *, run: str, sampling: Sampling, record: bool = False
    ) -> list[Trajectory]:
        """Continue saved trajectories from their forks, `samples` times each, in no order. `record`: as `play`."""
        manager = self._manager(policy, run, sampling, self.ledger if record else None)

        async def collected() -> list[Trajectory]:
            return [trajectory async for trajectory in manager.branch(forks, samples)]

        return self._runner.run(collected())

    def replay_turns(self, wanted: Sequence[tuple[Trajectory, Collection[int]]]) -> list[Trajectory]:
        """Say only some turns of saved trajectories again, each in a fresh world, and have what comes of it judged."""
        manager = self._manager(_SILENT, "replay", Sampling(), None)
        gate = asyncio.Semaphore(self.concurrency)

        async def one(record: Trajectory, turns: Collection[int]) -> Trajectory:
            async with gate:
                return await manager.replay_turns(record, turns)

        async def all_of_them() -> list[Trajectory]:
            return await asyncio.gather(*(one(record, turns) for record, turns in wanted))

        return self._runner.run(all_of_them())

    def score(self, policy: Policy, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """Log-probability of each continuation's tokens after its prefix, all asked at once."""

        async def all_of_them() -> list[list[float]]:
            return await asyncio.gather(*(policy.score(prefix, continuation) for prefix, continuation in pairs))

        return self._runner.run(all_of_them())

    def _manager(
        self,
        policy: Policy | Callable[[Task], Policy],
        run: str,
        sampling: Sampling,
        ledger: Ledger | None,
        checkpoints: Checkpoints | None = None,
    ) -> EpisodeManager:
        return EpisodeManager(
            policy,
            reward=self.reward,
            budgets=self.budgets,
            sampling=sampling,
            concurrency=self.concurrency,
            ledger=ledger,
            seed=self.seed,
            run=run,
            backend=self.backend,
            checkpoints=checkpoints,
        )

    def close(self) -> None:
        """End the sandboxes and the loop."""
        if isinstance(self.backend, Pool):
            self._runner.run(self.backend.close())
        self._runner.run(registry.close_backends())
        self._runner.close()
        if self.ledger is not None:
            self.ledger.close()

    def __enter__(self) -> Rollouts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
