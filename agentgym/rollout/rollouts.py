"""Plays the episodes of a training run on one event loop that lives as long as the run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, TypeVar

from agentgym import registry
from agentgym.errors import EpisodesFailed
from agentgym.policy.contract import Policy
from agentgym.reward.contract import Reward
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.episode_loop import EpisodeLoop
from agentgym.rollout.episodes import Checkpoints
from agentgym.rollout.failures import format_causes, no_turn
from agentgym.rollout.manager import EpisodeManager
from agentgym.rollout.replay import ExhaustedPolicy, Fork
from agentgym.rollout.search import EpisodeSearch, SearchResult
from agentgym.sandbox import Pool
from agentgym.storage.ledger import Ledger
from agentgym.task.definition import Task
from agentgym.text import counted
from agentgym.trajectory import PromptAddition
from agentgym.trajectory.record import Trajectory


@dataclass(frozen=True, slots=True)
class EpisodeRecords:
    """Reads and amends the episodes of a ledger in the thread that plays them, because a ledger is not thread-safe."""

    ledger: Ledger
    loop: EpisodeLoop

    def load(self, name: str) -> Trajectory:
        """Return an episode by its id. Raises: LedgerError if the ledger has no such episode."""
        return self.loop.call(partial(self.ledger.load, name))

    def labelled(self, label: str) -> list[Trajectory]:
        """Return the finished episodes whose ids begin with a label."""
        return self.loop.call(lambda: list(self.ledger.trajectories(label)))

    def newest(self, prefix: str, count: int) -> list[Trajectory]:
        """Return up to `count` finished episodes of the newest label that begins with `prefix`."""

        def read() -> list[Trajectory]:
            label = self.ledger.last_label(prefix)
            return [] if label is None else list(islice(self.ledger.trajectories(f"{label}/"), count))

        return self.loop.call(read)

    def amend(self, trajectories: Sequence[Trajectory]) -> None:
        """Rewrite the outcomes and the ends of episodes that were changed after they were recorded."""
        self.loop.call(partial(self.ledger.amend, trajectories))


T = TypeVar("T")
Schedule = Callable[[int], Mapping[str, Any]]
_SILENT = ExhaustedPolicy()


@dataclass(slots=True)
class _LastManager:
    """The latest manager, shared by all rollouts with the same environments and rewards."""

    manager: EpisodeManager | None = None


class Rollouts:
    """The episode manager for synchronous callers, such as trainers.

    Sandboxes, sockets and batchers belong to an event loop, so all episodes of a run share one loop, `loop`. The config
    never changes: `with_config` returns other rollouts on the same loop, ledger and sandboxes.

    Args:
        config: how episodes are played; a reward given by name is loaded once for the whole run.
        pool: number of sandboxes of each kind to keep ready; 0 creates each sandbox on demand.
        ledger: the ledger that records every turn. Episodes with a label already in the ledger are read instead of
            played.
        on_failures: called with one line per batch in which episodes failed, and one line per cause.
        schedule: maps an optimiser step, counted from 0, to changes of the config; see `at_step`.
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

    def with_config(
        self, config: RolloutConfig | None = None, *, schedule: Schedule | None = None, **changes: Any
    ) -> Rollouts:
        """Return rollouts with another config, or changed options of this one: `with_config(budgets=..., reward=...)`.

        The result shares the loop, the ledger and the sandboxes with this object. Close only the original rollouts.

        Args:
            config: replaces the whole config; None keeps it.
            schedule: replaces this object's schedule; None keeps it.
        """
        view = copy(self)
        view._config = replace(config or self.config, **changes)
        view._schedule = schedule or self._schedule
        if _makes_others(self.config, view.config):
            view._last_manager = _LastManager()
        return view

    def at_temperature(self, temperature: float | None) -> Rollouts:
        """Return rollouts at another sampling temperature; None returns these rollouts."""
        return self if temperature is None else self.with_config(self.config.at_temperature(temperature))

    def at_step(self, step: int) -> Rollouts:
        """Return rollouts with the schedule's config for an optimiser step, counted from 0."""
        return self if self._schedule is None else self.with_config(**self._schedule(step))

    @property
    def config(self) -> RolloutConfig:
        """Return the config of the episodes."""
        return self._config

    @property
    def records(self) -> EpisodeRecords | None:
        """Return access to the ledger's episodes; None without a ledger."""
        return None if self.ledger is None else EpisodeRecords(self.ledger, self.loop)

    @property
    def reward(self) -> Reward | None:
        """Return the one reward that judges all episodes; None if each environment's own judges them."""
        return self.config.reward if isinstance(self.config.reward, Reward) else None

    def play(
        self,
        policy: Policy | Callable[[Task], Policy],
        tasks: Sequence[Task],
        *,
        label: str,
        group_size: int | None = None,
        record: bool = True,
        progress: float | None = None,
        on_trajectory: Callable[[Trajectory], None] | None = None,
        checkpoints: Checkpoints | None = None,
        assistance: Sequence[PromptAddition | None] = (),
        repeats: bool = False,
    ) -> list[Trajectory]:
        """Play every task `group_size` times and wait for all of them.

        Args:
            label: the label of this batch; label, task and sample together name an episode and seed it.
            group_size: overrides the config's group size.
            record: whether to write the episodes to the ledger.
            progress: fraction of the training done, 0 to 1, for the reward's schedules.
            on_trajectory: called with each trajectory when it ends, such as for a progress bar.
            assistance: the agent's help in each episode, in the order of the returned episodes; empty for no help.
            checkpoints, repeats: see EpisodeManager.collect.
        Returns: [len(tasks) * group_size] trajectories, groups consecutive, in the order of the tasks.
        Raises: EpisodesFailed if no episode was played to its end; the ledger then files these episodes under another
            label.
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
                record=record,
                checkpoints=checkpoints,
                additions=assistance,
                on_trajectory=on_trajectory,
                repeats=repeats,
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
        judged: bool = False,
        on_trajectory: Callable[[Trajectory], None] | None = None,
    ) -> list[SearchResult]:
        """Search over the turns of each task's episodes. Arguments, order and errors are as in `play`."""
        manager = EpisodeManager(policy, self.config, ledger=self.ledger)

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
        """Report how many episodes of a batch failed, and the causes.

        Args:
            label: the label of the batch. `recorded_as`: the labels of its episodes in the ledger.
        Raises: EpisodesFailed if all episodes failed; the ledger then moves the episodes to other labels.
        """
        if trajectories and not any(trajectory.valid for trajectory in trajectories):
            lines = format_causes(Counter(t.error or no_turn(t) for t in trajectories))
            if self.ledger is not None:  # otherwise a resumed run would read these failures
                self.loop.call(partial(_set_aside, self.ledger, recorded_as))
            raise EpisodesFailed(f"All {len(trajectories)} episodes of {label} failed: {'; '.join(lines)}")
        causes = Counter(t.error or no_turn(t) for t in trajectories if not t.scored)
        if not causes:
            return
        self.report(f"{label}: {causes.total()} of {counted(len(trajectories), 'episode')} failed")
        for line in format_causes(causes):
            self.report(f"  {line}")

    def report(self, line: str) -> None:
        """Pass a line to `on_failures`."""
        if self._on_failures is not None:
            self._on_failures(line)

    def branch(
        self, policy: Policy, forks: Sequence[Fork], group_size: int, *, label: str, record: bool = False
    ) -> list[Trajectory]:
        """Continue saved trajectories from their forks, `group_size` times each; they come in any order.

        `record`: see `play`.
        """
        manager = self._manager_of(policy)
        options: dict[str, Any] = {"label": label, "record": record, "repeats": record}

        async def collected() -> list[Trajectory]:
            await policy.refresh()
            return [trajectory async for trajectory in manager.branch(forks, group_size, **options)]

        return self.loop.run(collected())

    def replay_turns(self, selections: Sequence[tuple[Trajectory, Collection[int]]]) -> list[Trajectory]:
        """Replay selected turns of each saved trajectory in a fresh environment, and judge the results."""
        manager = EpisodeManager(_SILENT, self.config, label="replay")
        gate = asyncio.Semaphore(self.config.concurrency)

        async def replay(record: Trajectory, turns: Collection[int]) -> Trajectory:
            async with gate:
                return await manager.replay_turns(record, turns)

        async def replay_all() -> list[Trajectory]:
            return await asyncio.gather(*(replay(record, turns) for record, turns in selections))

        return self.loop.run(replay_all())

    def score(self, policy: Policy, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """Return the log-probabilities of each continuation's tokens after its prefix, requested concurrently."""

        async def score_all() -> list[list[float]]:
            await policy.refresh()
            return await asyncio.gather(*(policy.score(prefix, continuation) for prefix, continuation in pairs))

        return self.loop.run(score_all())

    def _manager_of(self, policy: Policy | Callable[[Task], Policy]) -> EpisodeManager:
        """Return a manager with this config. Consecutive calls with one policy share the loaded environment rewards."""
        last = self._last_manager.manager
        if last is None or last.policy is not policy:
            last = self._last_manager.manager = EpisodeManager(policy, self.config, ledger=self.ledger)
        return last.with_config(self.config)

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end on the event loop of the episodes, and return its result."""
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
    """Move the episodes with these labels to other labels."""
    for label in labels:
        ledger.set_aside(label)


def _makes_others(config: RolloutConfig, other: RolloutConfig) -> bool:
    """Return whether two configs differ in an option that affects environments or rewards."""
    names = ("environment", "environment_options", "source_options", "backend", "reward")
    return any(
        getattr(config, name) is not getattr(other, name) and getattr(config, name) != getattr(other, name)
        for name in names
    )
