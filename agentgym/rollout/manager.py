"""Plays many episodes at once: a concurrency limit, no batch barrier, results as they finish."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from agentgym import __version__
from agentgym.environment import Checkpoint, Environment
from agentgym.errors import AgentGymError
from agentgym.messages import StopReason
from agentgym.policy.contract import Policy, Sampling
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.registry import load, load_reward, make
from agentgym.reward import Reward
from agentgym.rollout.branch import Divergence, Ended, Fork, Recorded, differs, ended_otherwise
from agentgym.rollout.collector import calm_collector
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.episode import Episode
from agentgym.rollout.judging import PENDING, judge_group
from agentgym.rollout.restored import Restored
from agentgym.rollout.setting import Setting
from agentgym.rollout.workers import Crew, Duties, Job
from agentgym.task import Task, seed_of
from agentgym.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym.storage.ledger import Ledger

Checkpoints = dict[tuple[str, int, int], Checkpoint | None]
"""By task id, sample, and the turn before which the checkpoint was taken; None where none was."""


class EpisodeManager:
    """Plays tasks with a policy and yields their trajectories.

    Args:
        policy: who plays; or a function from a task to the policy that plays it.
        config: how episodes are played.
        ledger: keeps every turn on disk; finished episodes found in it are yielded, not played again.
        label: begins the id of every trajectory.
        checkpoints: with a key (task id, sample, turn) for each that is wanted, of the environment before that turn;
            filled in while the episodes are played. For forks.
    Raises: UnknownNameError for an unknown reward.
    """

    def __init__(
        self,
        policy: Policy | Callable[[Task], Policy],
        config: RolloutConfig = RolloutConfig(),  # noqa: B008  frozen
        *,
        ledger: Ledger | None = None,
        label: str = "run",
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.config = config
        self._policy, self._concurrency, self._ledger = policy, config.concurrency, ledger
        self._seed, self._run = config.seed, label
        self._reward = load_reward(config.reward) if isinstance(config.reward, str) else config.reward
        self._environment, self._backend = config.environment, config.backend
        self._options = dict(config.environment_options)
        self._judges: dict[Any, Reward | None] = {}  # by what makes the environments: its id, class or function
        temperature = 1.0 if config.temperature is None else config.temperature
        sampling = Sampling(temperature, config.top_p, config.budgets.max_turn_tokens)
        self._provenance = {
            "agentgym": __version__,
            "seed": config.seed,
            "temperature": temperature,
            "top_p": config.top_p,
            "max_tokens": config.budgets.max_turn_tokens,
        }
        if self._reward is not None and isinstance(policy, Policy):
            self._reward.bind_policy(policy)
        self._load_declared = cache(self._declared)
        self._setting = Setting(
            make_environment=self._make,
            reward_for=self._reward_for,
            budgets=config.budgets, sampling=sampling, seed_parts=(config.seed, label), ledger=ledger,
            keep=None if checkpoints is None else partial(_keep, checkpoints),
        )  # fmt: skip

    async def collect(
        self,
        tasks: Iterable[Task],
        group_size: int | None = None,
        *,
        on_trajectory: Callable[[Trajectory], None] | None = None,
    ) -> list[Trajectory]:
        """Play every task `group_size` times, by default as often as the config says.

        Args:
            on_trajectory: called with each trajectory when it ends, for a progress bar.
        Returns: trajectories by task, in the order given, then by sample.
        """
        size = self.config.group_size if group_size is None else group_size
        finished: list[tuple[int, Trajectory]] = []
        async with aclosing(self._play(self._jobs(tasks, size), size)) as playing:
            async for item in playing:
                finished.append(item)
                if on_trajectory is not None:
                    on_trajectory(item[1])
        return [trajectory for _, trajectory in sorted(finished, key=lambda item: item[0])]

    async def run(self, tasks: Iterable[Task], group_size: int | None = None) -> AsyncIterator[Trajectory]:
        """Play every task `group_size` times and yield each trajectory when it ends.

        Tasks are taken from the iterable only when there is room to play them. When the caller stops early
        (use `contextlib.aclosing`) or is cancelled, the episodes in progress are cancelled, their environments
        closed, and nothing of them is yielded or recorded as finished.

        Raises: LedgerError when the record cannot be written; all episodes are stopped then.
        """
        size = self.config.group_size if group_size is None else group_size
        async with aclosing(self._play(self._jobs(tasks, size), size)) as playing:
            async for _, trajectory in playing:
                yield trajectory

    async def branch(self, forks: Iterable[Fork], group_size: int | None = None) -> AsyncIterator[Trajectory]:
        """Continue saved trajectories from their forks, `group_size` times each, and yield each when it ends.

        The turns before a fork are repeated as recorded, and checked (see `agentgym.rollout.branch`). Where the
        world no longer answers the same, the branch fails with ReplayDiverged: it is yielded, and not valid.
        `provenance["branch"]` says which trajectory and turn it left. Raises and stops: as `run`.
        """
        size = self.config.group_size if group_size is None else group_size
        async with aclosing(self._play(self._branches(forks, size), size)) as playing:
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

    async def _play(self, jobs: Iterator[Job], group_size: int) -> AsyncGenerator[tuple[int, Trajectory], None]:
        if group_size < 1:
            raise ValueError(f"group_size is {group_size!r}: a task is played at least once.")
        duties = Duties(self._cast, self._episode, self._group_judge, self._judge_group)
        crew = Crew(duties, jobs, group_size, self._concurrency, self._ledger, self._run)
        with calm_collector():
            async with aclosing(crew.results()) as results:
                async for item in results:
                    yield item

    def _jobs(self, tasks: Iterable[Task], group_size: int) -> Iterator[Job]:
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
                yield Job(position, trajectory)
                position += 1

    def _branches(self, forks: Iterable[Fork], group_size: int) -> Iterator[Job]:
        """Every continuation to play, lazily, with sample numbers that no two of a task share."""
        seen: Counter[str] = Counter()
        position = 0
        for fork in forks:
            origin = fork.trajectory
            for _ in range(group_size):
                sample = seen[origin.task.id]
                seen[origin.task.id] += 1
                name = f"{self._run}/{origin.id}@{fork.turn}#{sample}"
                yield Job(position, Trajectory(name, origin.task, sample, origin.seed), fork)
                position += 1

    def _reward_for(self, world: Environment | type[Environment]) -> Reward | None:
        reward = self._reward or (self._load_declared(world.reward) if world.reward else None)
        if callable(self._environment):
            self._judges[self._environment] = reward
        return reward

    def _declared(self, name: str) -> Reward:
        reward = load_reward(name)
        if isinstance(self._policy, Policy):
            reward.bind_policy(self._policy)
        return reward

    def _make(self, task: Task) -> Environment:
        if callable(self._environment):
            return self._environment(**self._options)
        return make(self._environment or task.environment, backend=self._backend, **self._options)

    def _cast(self, job: Job) -> Policy:
        """Who plays the episode, told that it is about to begin."""
        policy = self._policy if isinstance(self._policy, Policy) else self._policy(job.trajectory.task)
        policy = policy if job.fork is None else Recorded(job.fork, policy)
        policy.episode_started(job.trajectory.id)
        return policy

    def _setting_of(self, job: Job) -> Setting:
        fork = job.fork
        if fork is None or fork.checkpoint is None:
            return self._setting
        checkpoint = fork.checkpoint
        return replace(
            self._setting,
            make_environment=lambda task: Restored(self._make(task), fork.trajectory, fork.turn, checkpoint),
        )

    async def _episode(self, job: Job, policy: Policy) -> Trajectory:
        trajectory = job.trajectory
        trajectory.provenance = {**self._provenance, "policy": policy.name}
        if job.fork is not None:
            trajectory.provenance["branch"] = {"of": job.fork.trajectory.id, "turn": job.fork.turn}
        await Episode(self._setting_of(job), policy, trajectory).play()
        if job.fork is not None and trajectory.valid:
            _void_if_diverged(job.fork, trajectory)
        if self._group_judge(job) is not None:
            trajectory.provenance[PENDING] = True
        if self._ledger is not None:
            await self._ledger.finish(trajectory)
        return trajectory

    def _group_judge(self, job: Job, make: bool = False) -> Reward | None:
        """Who judges the episode's group beside its own outcome; None for nearly every reward, and for branches.

        `make`: where only an environment would tell and none was made yet, make one.
        """
        if job.fork is not None:
            return None
        reward = self._reward
        if reward is None:
            factory: Any = self._environment or job.trajectory.task.environment
            if factory not in self._judges:
                with suppress(AgentGymError):  # an id that nothing has: its episodes have failed of it, and say so
                    made_by = load("environments", factory) if isinstance(factory, str) else factory
                    if isinstance(made_by, type):  # a class tells what it declares
                        self._judges[factory] = self._reward_for(made_by)
            if make and factory not in self._judges:
                self._reward_for(self._make(job.trajectory.task))
            reward = self._judges.get(factory)  # a function tells it only in what it made
        return reward if reward is not None and reward.has_stage("group") else None

    async def _judge_group(self, reward: Reward, group: Sequence[Trajectory]) -> None:
        """Judge a complete group and keep what was said."""
        budgets = self._setting.budgets
        await judge_group(reward, group, time_s=budgets.time_s, retries=budgets.infra_retries)
        if self._ledger is not None:
            self._ledger.amend(group)


def _keep(checkpoints: Checkpoints, trajectory: Trajectory, turn: int, checkpoint: Checkpoint) -> None:
    if (key := (trajectory.task.id, trajectory.sample, turn)) in checkpoints:
        checkpoints[key] = checkpoint


def _void_if_diverged(fork: Fork, branch: Trajectory) -> None:
    """A branch whose first turns had other states than the record's is no other ending of it."""
    found = differs(fork.trajectory, branch, fork.turn)
    if found is not None:
        branch.stop_reason, branch.outcome, branch.error = StopReason.INFRA_ERROR, {}, f"ReplayDiverged: {found}"
