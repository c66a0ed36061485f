"""EpisodeManager: plays many episodes at once, without a batch barrier, and yields each when it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from typing import Any

from agentgym.deprecation import warn_renamed
from agentgym.errors import CreditError
from agentgym.policy.contract import Policy
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.environments import EnvironmentFactory
from agentgym.rollout.episode import Episode, EpisodeFactory
from agentgym.rollout.episodes import Checkpoints, EpisodeConfig, EpisodeJob, branch_jobs, episode_jobs
from agentgym.rollout.group_rewards import GroupRewards
from agentgym.rollout.replay import (
    Divergence,
    ExhaustedPolicy,
    Fork,
    ReplayPolicy,
    ending_divergence,
    trajectory_divergence,
)
from agentgym.rollout.workers.pool import WorkerPool
from agentgym.rollout.workers.slots import Slots
from agentgym.rollout.workers.standstill import StandstillWatch
from agentgym.storage.identity import identity_of_policy
from agentgym.storage.ledger import Ledger
from agentgym.task.definition import Task
from agentgym.trajectory.provenance import PromptAddition, ReplayedTurns
from agentgym.trajectory.record import Trajectory


class EpisodeManager:
    """Plays tasks with a policy and yields their trajectories. One manager may serve any number of runs.

    Args:
        policy: the policy that plays, or a function from a task to its policy.
        config: how episodes are played.
        ledger: stores every turn on disk; finished episodes found in it are yielded, not played again.
        label: prefix of every trajectory id, unless a run has its own label.
        identity: further facts that the episodes depend on, by name. The ledger stores them with the policy and the
            config, and rejects a run under the same label that differs in any of them.
    Raises: UnknownNameError for a reward, environment or backend of the config that is not registered.
    """

    def __init__(
        self,
        policy: Policy | Callable[[Task], Policy],
        config: RolloutConfig = RolloutConfig(),  # noqa: B008  frozen
        *,
        ledger: Ledger | None = None,
        label: str = "run",
        identity: Mapping[str, Any] = {},
    ) -> None:
        self.policy, self.config, self.ledger, self.label = policy, config, ledger, label
        self._identity = identity
        self._environments = EnvironmentFactory(config, policy)

    def with_config(self, config: RolloutConfig) -> EpisodeManager:
        """Return a manager with another config, but with this manager's environments and rewards.

        Args:
            config: budgets, instruction, knowledge, sampling and stop rules to play with. Its reward and environments
                are not read.
        """
        manager = copy(self)
        names = ("reward", "environment", "environment_options", "source_options")
        manager.config = replace(config, **{name: getattr(self.config, name) for name in names})
        return manager

    async def collect(
        self,
        tasks: Iterable[Task],
        group_size: int | None = None,
        *,
        label: str | None = None,
        record: bool = True,
        checkpoints: Checkpoints | None = None,
        additions: Sequence[PromptAddition | None] = (),
        on_trajectory: Callable[[Trajectory], None] | None = None,
        repeats: bool = False,
        **old: Any,
    ) -> list[Trajectory]:
        """Play every task `group_size` times and wait for all of them; `with_config` plays with another config.

        Args:
            group_size, label: for this run, instead of the config's and the manager's.
            record: whether to read and write the ledger, if there is one.
            checkpoints: has a key (task id, sample, turn) for each wanted checkpoint of the environment before that
                turn; filled in during the episodes. For forks.
            additions: the prompt addition of each episode, such as help, in the order of the episodes returned; empty
                for none.
            on_trajectory: called with each trajectory when it ends, for a progress bar.
            repeats: whether a local policy that samples in lockstep on a CPU computes the recorded episodes again, if
                others are left to play. These are then sampled in the batches of an undisturbed run, and equal to it in
                every bit; no tool runs again.
            old: the deprecated keywords `config` and `temperature`, which `with_config` replaces.
        Returns: trajectories by task, in the order given, then by sample.
        Raises: as `run`; HeldOutError for help with a task that is not for training.
        """
        if old:
            self = self._with_old_keywords("collect", **old)
        group_size = self._group_size(group_size)
        if record:
            self.claim(label)
        label, ledger = label or self.label, self.ledger if record else None
        jobs = episode_jobs(tasks, group_size, label=label, seed=self.config.seed, additions=additions)
        pool = self._pool(jobs, group_size, label, ledger, repeats=repeats, checkpoints=checkpoints)
        finished: list[tuple[int, Trajectory]] = []
        async with aclosing(pool.results()) as results:
            async for position, trajectory in results:
                finished.append((position, trajectory))
                if on_trajectory is not None:
                    on_trajectory(trajectory)
        return [trajectory for _, trajectory in sorted(finished, key=lambda item: item[0])]

    async def run(
        self, tasks: Iterable[Task], group_size: int | None = None, *, label: str | None = None
    ) -> AsyncIterator[Trajectory]:
        """Play every task `group_size` times and yield each trajectory when it ends. Arguments: as `collect`.

        Tasks are taken from the iterable only when there is room to play them. When the caller stops early
        (use `contextlib.aclosing`) or is cancelled, the episodes in progress are cancelled and their environments
        closed; these episodes are neither yielded nor recorded as finished.

        Raises: LedgerError when the record cannot be written, EpisodesFailed after `max_failures_in_a_row`; either
            stops all episodes. DifferentRunError if the ledger holds episodes of this label that were played
            differently.
        """
        group_size = self._group_size(group_size)
        self.claim(label)
        label = label or self.label
        jobs = episode_jobs(tasks, group_size, label=label, seed=self.config.seed)
        async with aclosing(self._pool(jobs, group_size, label, self.ledger).results()) as results:
            async for _, trajectory in results:
                yield trajectory

    async def stream(
        self,
        tasks: Iterable[Task],
        group_size: int,
        *,
        label: str,
        slots: Slots,
        skip: Container[int] = (),
        watch: StandstillWatch | None = None,
        **old: Any,
    ) -> AsyncIterator[tuple[int, Trajectory]]:
        """Play as `run` does, and yield each trajectory with its position; a group's positions are consecutive.

        Args:
            slots: slots shared with other runs on this event loop, instead of the config's `concurrency`.
            skip: groups, counted from 0, to leave out.
            watch: shared with other runs: a stall is reported only if no run progresses; by default, this run's own.
            old: the deprecated keyword `config`, which `with_config` replaces.
        """
        if old:
            self = self._with_old_keywords("stream", **old)
        self.claim(label)
        jobs = episode_jobs(tasks, group_size, label=label, seed=self.config.seed)
        jobs_to_play = (job for job in jobs if job.position // group_size not in skip)
        pool = self._pool(jobs_to_play, group_size, label, self.ledger)
        async with aclosing(pool.results(slots, watch)) as results:
            async for result in results:
                yield result

    async def branch(
        self,
        forks: Iterable[Fork],
        group_size: int | None = None,
        *,
        label: str | None = None,
        record: bool = True,
        repeats: bool = False,
    ) -> AsyncIterator[Trajectory]:
        """Continue saved trajectories from their forks, `group_size` times each, and yield each when it ends.

        The turns before a fork are repeated as recorded, and checked (see `agentgym.rollout.replay`). If the
        environment now answers differently, the branch fails with ReplayDiverged: it is yielded, but not valid.
        `provenance.branch` names the trajectory and turn at which it was forked. Arguments: as `collect`. Errors and
        stopping: as `run`.
        """
        group_size = self._group_size(group_size)
        label, ledger = label or self.label, self.ledger if record else None
        jobs = branch_jobs(self._claimed(forks, label, record), group_size, label=label)
        async with aclosing(self._pool(jobs, group_size, label, ledger, repeats=repeats).results()) as results:
            async for _, trajectory in results:
                yield trajectory

    async def play_prepared(
        self,
        episodes: Sequence[tuple[Trajectory, Fork | None]],
        *,
        label: str,
        policy: Policy | None = None,
        temperature: float | None = None,
        max_turns: int | None = None,
        judged: bool = True,
        checkpoints: Checkpoints | None = None,
    ) -> list[Trajectory]:
        """Play episodes whose trajectories already exist, such as the nodes of a search, and read their end states.

        Args:
            episodes: the empty trajectory of each, and its fork if it is a branch.
            label: prefix of their trajectory ids.
            policy, temperature, max_turns: for these episodes, instead of the manager's.
            judged: whether to compute their rewards.
            checkpoints: as `collect`; a key whose turn is an episode's number of turns gets the final checkpoint.
        Returns: [len(episodes)] trajectories in the same order.
        Raises: as `run`; CreditError for a reward that judges groups, since these episodes have none.
        """
        if episodes and (judge := self._environments.group_reward(episodes[0][0].task, make=True)) is not None:
            raise CreditError(
                f"{type(judge).__name__} judges whole groups, but these episodes belong to none. Name another reward."
            )
        budgets = self.config.budgets if max_turns is None else replace(self.config.budgets, max_turns=max_turns)
        config = self.config if temperature is None else self.config.at_temperature(temperature)
        player = self.with_config(replace(config, budgets=budgets, state_keys=True))
        options: dict[str, Any] = {"judged": judged, "end_state": True, "checkpoints": checkpoints}
        jobs = (EpisodeJob(position, trajectory, fork) for position, (trajectory, fork) in enumerate(episodes))
        pool = player._pool(jobs, 1, label, self.ledger, policy, **options)
        trajectories = [trajectory for trajectory, _ in episodes]
        async with aclosing(pool.results()) as results:
            async for position, trajectory in results:
                trajectories[position] = trajectory
        return trajectories

    async def replay(self, record: Trajectory) -> Divergence | None:
        """Run a saved trajectory's calls again in a fresh environment.

        Returns: the first divergence; None if everything matches the record.
        """
        fork = Fork(record, len(record.turns))
        config = self._episode_config(budgets=replace(self.config.budgets, infra_retries=0), judged=False, fork=fork)
        trajectory = Trajectory(f"replay/{record.id}", record.task.copy(), record.sample, record.seed)
        _as_prompted(trajectory, record)
        await Episode(config, ReplayPolicy(fork, ExhaustedPolicy()), trajectory).play()
        return trajectory_divergence(record, trajectory, len(record.turns)) or ending_divergence(record, trajectory)

    async def replay_turns(self, record: Trajectory, turns: Collection[int]) -> Trajectory:
        """Repeat only these turns of a saved trajectory, in a fresh environment, and judge the result.

        The effects of the omitted turns are missing: a call that needs them gets the environment's own error.
        Raises: ValueError if no turn is given.
        """
        chosen = tuple(sorted(turns))
        if not chosen:
            raise ValueError(f"No turn of {record.id!r} was selected. Select at least one.")
        messages = [record.turns[turn].message for turn in chosen]
        budgets = replace(self.config.budgets, max_turns=len(chosen))
        config = self.with_config(replace(self.config, budgets=budgets, stop_if=()))._episode_config()
        trajectory = Trajectory(f"replay/{record.id}", record.task.copy(), record.sample, record.seed)
        trajectory.provenance = replace(
            config.provenance(self.config.seed, self.config.prompt.fixed), replay=ReplayedTurns(record.id, chosen)
        )
        _as_prompted(trajectory, record)
        return await Episode(config, ScriptedPolicy(messages, name="replay"), trajectory).play()

    def claim(self, label: str | None = None, **old: Any) -> None:
        """Record in the ledger, if there is one, how the episodes of a label are played. Arguments: as `collect`.

        Raises: DifferentRunError if the ledger holds episodes of this label that were played differently.
        """
        if old:
            self = self._with_old_keywords("claim", **old)
        if self.ledger is None:
            return
        identity = {"policy": identity_of_policy(self.policy), **self.config.identity(), **self._identity}
        provenance = self._episode_config().provenance(self.config.seed, self.config.prompt.fixed)
        provenance.policy = self.policy.name if isinstance(self.policy, Policy) else None
        self.ledger.claim(label or self.label, identity, provenance)

    def _claimed(self, forks: Iterable[Fork], label: str, record: bool) -> Iterator[Fork]:
        for fork in forks:
            if record:
                self.claim(f"{label}/{fork.trajectory.id}@{fork.turn}")
            yield fork

    def _with_old_keywords(
        self, method: str, *, temperature: float | None = None, config: RolloutConfig | None = None
    ) -> EpisodeManager:
        """Return the manager for a method's deprecated keywords `config` and `temperature`."""
        warn_renamed(f"config= and temperature= of {method}()", "EpisodeManager.with_config(config)", stacklevel=3)
        rollout = config or self.config
        return self.with_config(rollout if temperature is None else rollout.at_temperature(temperature))

    def _group_size(self, group_size: int | None) -> int:
        if group_size is None:
            return self.config.group_size
        if group_size < 1:
            raise ValueError(f"group_size = {group_size!r} is not valid: a task must be played at least once.")
        return group_size

    def _pool(
        self,
        jobs: Iterator[EpisodeJob],
        group_size: int,
        label: str,
        ledger: Ledger | None,
        policy: Policy | None = None,
        *,
        repeats: bool = False,
        **changes: Any,
    ) -> WorkerPool:
        """Return the workers of one run.

        Args:
            policy: the policy that plays, instead of the manager's.
            repeats: as in `collect`.
            changes: EpisodeConfig options that override those of the config.
        """
        config = self._episode_config(seed_parts=(self.config.seed, label), ledger=ledger, **changes)
        prompt = self.config.prompt
        provenance = config.provenance(self.config.seed, prompt.fixed)
        episodes = EpisodeFactory(policy or self.policy, config, provenance, prompt)
        groups = GroupRewards(config, group_size, ledger, label)
        return WorkerPool(jobs, episodes, groups, self.config, ledger, label, repeats=repeats)

    def _episode_config(self, **changes: object) -> EpisodeConfig:
        rollout = self.config
        hooks = rollout.episode_hooks
        config = EpisodeConfig(
            self._environments,
            budgets=rollout.budgets,
            temperature=1.0 if rollout.temperature is None else rollout.temperature,
            top_p=rollout.top_p,
            seed_parts=(rollout.seed, self.label),
            state_keys=rollout.state_keys or any(hook.reads_state_keys for hook in hooks),
            hooks=hooks,
        )
        return replace(config, **changes) if changes else config  # type: ignore[arg-type]


def _as_prompted(trajectory: Trajectory, record: Trajectory) -> None:
    """Give an episode the same prompt additions as a record."""
    trajectory.provenance.additions = record.provenance.additions
