"""What a run is to play, and how each episode of it is set up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from agentgym.errors import HeldOutError
from agentgym.knowledge import Knowledge
from agentgym.policy.contract import Policy
from agentgym.rollout.episode import Episode
from agentgym.rollout.episode_config import EpisodeConfig
from agentgym.rollout.replay import Fork, ReplayPolicy
from agentgym.task import Task, seed_of
from agentgym.trajectory import Assistance, Provenance, Trajectory


@dataclass(frozen=True, slots=True)
class Job:
    """An episode to be played.

    Attributes:
        position: in the order of asking; the episodes of a group follow one another.
        trajectory: what it is played into.
        fork: for a branch, where it leaves its record.
        assistance: what helps the agent, in training; of a branch, what helped in its record.
    """

    position: int
    trajectory: Trajectory
    fork: Fork | None = None
    assistance: Assistance | None = None


def episode_jobs(
    tasks: Iterable[Task],
    group_size: int,
    *,
    label: str,
    seed: int,
    assistance: Sequence[Assistance | None] = (),
) -> Iterator[Job]:
    """Every episode to play, lazily. A task that comes again gets new sample numbers, so that ids stay unique.

    Raises: HeldOutError for help with a task that is not for training.
    """
    samples: Counter[str] = Counter()
    position = 0
    for task in tasks:
        for _ in range(group_size):
            sample = samples[task.id]
            samples[task.id] += 1
            helped = assistance[position] if assistance else None
            if helped is not None and task.split != "train":
                raise HeldOutError(
                    f"{task.id!r} is a task of the split {task.split!r}, and was to be played with a {helped.kind}. "
                    "Only training tasks are: what measures is played without help."
                )
            trajectory = Trajectory(f"{label}/{task.id}#{sample}", task, sample, seed_of(seed, task.id))
            yield Job(position, trajectory, assistance=helped)
            position += 1


def branch_jobs(forks: Iterable[Fork], group_size: int, *, label: str) -> Iterator[Job]:
    """Every branch to play, lazily, with sample numbers that no two of a task share."""
    samples: Counter[str] = Counter()
    position = 0
    for fork in forks:
        origin = fork.trajectory
        for _ in range(group_size):
            sample = samples[origin.task.id]
            samples[origin.task.id] += 1
            episode_id = f"{label}/{origin.id}@{fork.turn}#{sample}"
            trajectory = Trajectory(episode_id, origin.task, sample, origin.seed)
            yield Job(position, trajectory, fork, origin.provenance.assistance)
            position += 1


@dataclass(frozen=True, slots=True)
class EpisodeFactory:
    """Sets up the episodes of a run: who plays each, and what its record says of its making.

    Attributes:
        policy: who plays, or a function from a task to the policy that plays it.
        provenance: what all episodes have in common.
        knowledge: what earlier episodes have taught, when those of this run began.
    """

    policy: Policy | Callable[[Task], Policy]
    config: EpisodeConfig
    provenance: Provenance
    knowledge: Knowledge | None = None

    def policy_for(self, job: Job) -> Policy:
        """Who plays an episode; of a branch, a policy that repeats the turns before the fork."""
        policy = self.policy if isinstance(self.policy, Policy) else self.policy(job.trajectory.task)
        return policy if job.fork is None else ReplayPolicy(job.fork, policy)

    def episode(self, job: Job, policy: Policy) -> Episode:
        """An episode that is ready to be played."""
        config, fork = self.config, job.fork
        common = self.provenance
        job.trajectory.provenance = Provenance(
            agentgym=common.agentgym,
            seed=common.seed,
            temperature=common.temperature,
            top_p=common.top_p,
            max_turn_tokens=common.max_turn_tokens,
            hooks=common.hooks,
            instruction=common.instruction if fork is None else fork.trajectory.provenance.instruction,
            knowledge=self._knowledge_for(job),
            policy=policy.name,
            assistance=job.assistance,
        )
        if fork is not None:
            job.trajectory.provenance.branch = fork.point
            config = replace(config, fork=fork)
        return Episode(config, policy, job.trajectory)

    def _knowledge_for(self, job: Job) -> str | None:
        """What the agent is shown; of a branch, what it was shown in its record."""
        if job.fork is not None:
            return job.fork.trajectory.provenance.knowledge
        return None if self.knowledge is None else self.knowledge.text_for(job.trajectory.task) or None
