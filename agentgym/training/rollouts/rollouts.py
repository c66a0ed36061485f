"""Plays the episodes of a training run on one event loop that lives as long as the run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from agentgym import registry
from agentgym.errors import EpisodesFailed
from agentgym.evaluation.search import EpisodeSearch, SearchResult
from agentgym.evaluation.text import format_causes
from agentgym.policy.contract import Policy
from agentgym.reward import Reward
from agentgym.rollout import Checkpoints, EpisodeManager, ExhaustedPolicy, Fork, RolloutConfig
from agentgym.rollout.failures import no_turn
from agentgym.sandbox import Pool
from agentgym.storage.ledger import Ledger
from agentgym.task import Task
from agentgym.training.rollouts.episode_loop import EpisodeLoop
from agentgym.trajectory import PromptAddition, Trajectory


@dataclass(frozen=True, slots=True)
class EpisodeRecords:
    """Reads and amends the episodes of a ledger where they are played, as two threads must not use it at once."""

    ledger: Ledger
    loop: EpisodeLoop

    def load(self, name: str) -> Trajectory:
        """Return an episode by its id. Raises: LedgerError if the ledger has none."""
        return self.loop.call(partial(self.ledger.load, name))

    def labelled(self, label: str) -> list[Trajectory]:
        """Return the finished episodes whose ids begin with a label."""
        return self.loop.call(lambda: list(self.ledger.trajectories(label)))

    def amend(self, trajectories: Sequence[Trajectory]) -> None:
        """Write the outcomes and the ends of episodes again, which were changed since they were recorded."""
        self.loop.call(partial(self.ledger.amend, trajectories))


T = TypeVar("T")
Schedule = Callable[[int], Mapping[str, Any]]
_SILENT = ExhaustedPolicy()


@dataclass(slots=True)
class _LastManager:
    """The manager that played last, for all rollouts in the same environments and with the same rewards."""

    manager: EpisodeManager | None = None


class Rollouts:
    """The episode manager for callers that are not async, as trainers are.

    Sandboxes, sockets and batchers belong to an event loop, so all episodes of a run share one, `loop`. The config
    never changes: `with_config` returns other rollouts on the same loop, ledger and sandboxes.

    Args:
        config: how episodes are played; a reward given by name is loaded once for the whole run.
        pool: keep so many sandboxes of each kind ready ahead of time; 0 creates each on demand.
        ledger: where every turn is recorded; a run label seen before is read back instead of played again.
        on_failures: called with a line for each batch in which some episodes failed, and one for each cause.
        schedule: gives the changes of the config at an optimiser step, counted from 0; see `at_step`.
    """

    def __init__(
        self,
        config: RolloutConfig = RolloutConfig(),  # noqa: B008  frozen
        *,
        pool: int = 0,
        ledger: Ledger | None = None,
        on_failures: Callable[[str], None] | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        if isinstance(config.reward, str):
            config = replace(config, reward=registry.load_reward(config.reward))
        self._pool: Pool | None = None
        if pool:
            backend = config.backend or registry.DEFAULT_BACKEND
            backend = registry.load("backends", backend)() if isinstance(backend, str) else backend
            self._pool = Pool(backend, ready=pool)
            config = replace(config, backend=self._pool)
        self.ledger, self._config, self._on_failures, self._schedule = ledger, config, on_failures, schedule
        self._last_manager = _LastManager()
        self.loop = EpisodeLoop()
        self._backends = registry.BackendUser()

    def with_config(self, *, schedule: Schedule | None = None, **changes: Any) -> Rollouts:
        """Return rollouts that play with other options of the config: `with_config(budgets=..., reward=...)`.

        They share the loop, the ledger and the sandboxes of these, which go on as they are. Close the first ones alone.

        Args:
            schedule: replaces the schedule of these.
        """
        view = copy(self)
        view._config = replace(self.config, **changes)
        view._schedule = schedule or self._schedule
        if _makes_others(self.config, view.config):
            view._last_manager = _LastManager()
        return view

    def at_step(self, step: int) -> Rollouts:
        """Return the rollouts of an optimiser step, counted from 0, as the schedule says."""
        return self if self._schedule is None else self.with_config(**self._schedule(step))

    @property
    def config(self) -> RolloutConfig:
        """How episodes are played."""
        return self._config

    @property
    def records(self) -> EpisodeRecords | None:
        """The episodes that the ledger keeps; None without a ledger."""
        return None if self.ledger is None else EpisodeRecords(self.ledger, self.loop)

    @property
    def reward(self) -> Reward | None:
        """Who judges every episode; None where each environment has its own."""
        return self.config.reward if isinstance(self.config.reward, Reward) else None

    def play(
        self,
        policy: Policy | Callable[[Task], Policy],
        tasks: Sequence[Task],
        *,
        label: str,
        group_size: int | None = None,
        temperature: float | None = None,
        record: bool = True,
        progress: float | None = None,
        on_trajectory: Callable[[Trajectory], None] | None = None,
        checkpoints: Checkpoints | None = None,
        assistance: Sequence[PromptAddition | None] = (),
        config: RolloutConfig | None = None,
    ) -> list[Trajectory]:
        """Play every task `group_size` times and wait for all of them.

        Args:
            label: the label of this batch; with the task and the sample it names the episode and seeds it.
            group_size, temperature: instead of the config's.
            record: write the episodes to the ledger.
            progress: how much of the training is done, 0 to 1: the reward's schedules follow it.
            on_trajectory: called with each trajectory when it ends, for a progress bar.
            assistance: what helps the agent in each episode, in the order of those returned; empty for none.
            checkpoints: a key for each checkpoint to take; the values are filled in (see EpisodeManager).
            config: as of `EpisodeManager.collect`.
        Returns: [len(tasks) * group_size] trajectories, groups consecutive, in the order of the tasks.
        Raises: EpisodesFailed if no episode was played to its end; the ledger keeps them under another label.
        """
        if progress is not None and self.reward is not None:
            self.reward.set_progress(progress)
        manager = self._manager_of(policy)

        async def collect() -> list[Trajectory]:
            if isinstance(policy, Policy):
                await policy.refresh()
            return await manager.collect(
                tasks,
                group_size,
                label=label,
                temperature=temperature,
                record=record,
                checkpoints=checkpoints,
                additions=assistance,
                on_trajectory=on_trajectory,
                config=config,
            )

        trajectories = self.loop.run(collect())
        self.report_failures(label, trajectories, recorded_as=[label] if record else [])
        return trajectories

    def search(
        self,
        policy: Policy,
        tasks: Sequence[Task],
        search: EpisodeSearch,
        *,
        label: str,
        group_size: int = 1,
        temperature: float | None = None,
        judged: bool = False,
        on_trajectory: Callable[[Trajectory], None] | None = None,
        config: RolloutConfig | None = None,
    ) -> list[SearchResult]:
        """Search over the turns of each task's episodes. Arguments, order and errors are those of `play`."""
        config = config or self.config
        config = config if temperature is None else config.at_temperature(temperature)
        manager = EpisodeManager(policy, config, ledger=self.ledger)

        async def search_all() -> list[SearchResult]:
            await policy.refresh()
            episodes = []
            options: dict[str, Any] = {"label": label, "group_size": group_size, "judged": judged}
            async for episode in search.play(manager, tasks, **options):
                episodes.append(episode)
                if on_trajectory is not None:
                    on_trajectory(episode.trajectory)
            return episodes

        order = {task.id: position for position, task in enumerate(tasks)}
        episodes = self.loop.run(search_all())
        episodes.sort(key=lambda episode: (order[episode.trajectory.task.id], episode.trajectory.sample))
        self.report_failures(label, [episode.trajectory for episode in episodes], recorded_as=[label])
        return episodes

    def report_failures(self, label: str, trajectories: Sequence[Trajectory], *, recorded_as: Collection[str]) -> None:
        """Say how many episodes of a batch failed, and of what.

        Args:
            label: the label of the batch. `recorded_as`: the labels that its episodes have in the ledger.
        Raises: EpisodesFailed if all of them did; the ledger then keeps what has these labels under others.
        """
        if trajectories and not any(trajectory.valid for trajectory in trajectories):
            lines = format_causes(Counter(t.error or no_turn(t) for t in trajectories))
            if self.ledger is not None:  # or else a resumed run would read these failures back
                self.loop.call(partial(_set_aside, self.ledger, recorded_as))
            raise EpisodesFailed(f"Every one of the {len(trajectories)} episodes of {label} failed: {'; '.join(lines)}")
        causes = Counter(t.error or no_turn(t) for t in trajectories if not t.scored)
        if not causes:
            return
        self.report(f"{label}: {causes.total()} of {len(trajectories)} episodes failed")
        for line in format_causes(causes):
            self.report(f"  {line}")

    def report(self, line: str) -> None:
        """Say something where failures are said."""
        if self._on_failures is not None:
            self._on_failures(line)

    def branch(
        self, policy: Policy, forks: Sequence[Fork], group_size: int, *, label: str, record: bool = False
    ) -> list[Trajectory]:
        """Continue saved trajectories from their forks, `group_size` times each, in no order. `record`: as `play`."""
        manager = self._manager_of(policy)

        async def collected() -> list[Trajectory]:
            await policy.refresh()
            return [trajectory async for trajectory in manager.branch(forks, group_size, label=label, record=record)]

        return self.loop.run(collected())

    def replay_turns(self, selections: Sequence[tuple[Trajectory, Collection[int]]]) -> list[Trajectory]:
        """Repeat only some turns of saved trajectories, each in a fresh environment, and judge the results."""
        manager = EpisodeManager(_SILENT, self.config, label="replay")
        gate = asyncio.Semaphore(self.config.concurrency)

        async def replay(record: Trajectory, turns: Collection[int]) -> Trajectory:
            async with gate:
                return await manager.replay_turns(record, turns)

        async def replay_all() -> list[Trajectory]:
            return await asyncio.gather(*(replay(record, turns) for record, turns in selections))

        return self.loop.run(replay_all())

    def score(self, policy: Policy, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """Return the log-probabilities of each continuation's tokens after its prefix; all are requested at once."""

        async def score_all() -> list[list[float]]:
            await policy.refresh()
            return await asyncio.gather(*(policy.score(prefix, continuation) for prefix, continuation in pairs))

        return self.loop.run(score_all())

    def _manager_of(self, policy: Policy | Callable[[Task], Policy]) -> EpisodeManager:
        """Return a manager with this config. All that a policy plays in a row has the same rewards of environments."""
        last = self._last_manager.manager
        if last is None or last.policy is not policy:
            last = self._last_manager.manager = EpisodeManager(policy, self.config, ledger=self.ledger)
        return last.with_config(self.config)

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something to its end on the event loop of the episodes, and return its result."""
        return self.loop.run(work)

    def close(self) -> None:
        """Close the sandboxes, the event loop and the ledger."""
        if self._pool is not None:
            self.loop.run(self._pool.close())
        self.loop.run(self._backends.close())
        self.loop.close()
        if self.ledger is not None:
            self.ledger.close()

    def __enter__(self) -> Rollouts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _set_aside(ledger: Ledger, labels: Collection[str]) -> None:
    """Let the episodes of these labels have others."""
    for label in labels:
        ledger.set_aside(label)


def _makes_others(config: RolloutConfig, other: RolloutConfig) -> bool:
    """Whether two configs differ in what makes environments or judges."""
    names = ("environment", "environment_options", "source_options", "backend", "reward")
    return any(
        getattr(config, name) is not getattr(other, name) and getattr(config, name) != getattr(other, name)
        for name in names
    )
