"""What a run is to play, and how each episode of it is set up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from agentgym.errors import HeldOutError
from agentgym.policy.contract import Policy
from agentgym.rollout.episode import Episode
from agentgym.rollout.episode_config import EpisodeConfig
from agentgym.rollout.prompt import Prompt
from agentgym.rollout.replay import Fork, ReplayPolicy
from agentgym.task import Task, seed_of
from agentgym.trajectory import PromptAddition, Provenance, Trajectory


@dataclass(frozen=True, slots=True)
class Job:
    """An episode to be played.

    Attributes:
        position: in the order of asking; the episodes of a group follow one another.
        trajectory: what it is played into.
        fork: for a branch, where it leaves its record.
        addition: what is added to the prompt of this episode alone, such as help in training.
    """

    position: int
    trajectory: Trajectory
    fork: Fork | None = None
    addition: PromptAddition | None = None


def episode_jobs(
    tasks: Iterable[Task],
    group_size: int,
    *,
    label: str,
    seed: int,
    additions: Sequence[PromptAddition | None] = (),
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
            addition = additions[position] if additions else None
            if addition is not None and addition.is_help and task.split != "train":
                raise HeldOutError(
                    f"{task.id!r} is a task of the split {task.split!r}, and was to be played with a {addition.kind}. "
                    "Only training tasks are: what measures is played without help."
                )
            trajectory = Trajectory(f"{label}/{task.id}#{sample}", task, sample, seed_of(seed, task.id))
            yield Job(position, trajectory, addition=addition)
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
            yield Job(position, trajectory, fork)
            position += 1


@dataclass(frozen=True, slots=True)
class EpisodeFactory:
    """Sets up the episodes of a run: who plays each, and what its record says of its making.

    Attributes:
        policy: who plays, or a function from a task to the policy that plays it.
        provenance: what all episodes have in common.
        prompt: what the agents of this run read beside the words of their environments.
    """

    policy: Policy | Callable[[Task], Policy]
    config: EpisodeConfig
    provenance: Provenance
    prompt: Prompt

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
            additions=self._additions_for(job),
            policy=policy.name,
        )
        if fork is not None:
            job.trajectory.provenance.branch = fork.point
            config = replace(config, fork=fork)
        return Episode(config, policy, job.trajectory)

    def _additions_for(self, job: Job) -> tuple[PromptAddition, ...]:
        """Return what is added to the prompt of an episode; of a branch, what was added in its record."""
        if job.fork is not None:
            return job.fork.trajectory.provenance.additions
        additions = self.prompt.additions_for(job.trajectory.task)
        return additions if job.addition is None else (*additions, job.addition)
