"""What a run plays: the shared config of its episodes, and the job of each episode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentgym import __version__
from agentgym.environment import EnvironmentWrapper
from agentgym.environment.contract import Environment
from agentgym.environment.state import Checkpoint
from agentgym.errors import HeldOutError
from agentgym.reward.contract import Reward
from agentgym.rollout.budgets import Budgets
from agentgym.rollout.environments import EnvironmentFactory
from agentgym.rollout.hooks import EpisodeHook, added_weights, recorded_options
from agentgym.rollout.replay import Fork, RestoredEnvironment
from agentgym.task.definition import Task, seed_of
from agentgym.trajectory import PromptAddition, Provenance
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn

Checkpoints = dict[tuple[str, int, int], Checkpoint | None]
"""Checkpoints by task id, sample, and the turn that follows the checkpoint; None if it was not taken."""


class TurnRecord(Protocol):
    """Stores each finished turn of an episode, as `agentgym.storage.Ledger` does."""

    def begin(self, trajectory: Trajectory) -> None:
        """Prepare for an episode that starts, or starts over."""
        ...

    async def write_turn(self, trajectory: Trajectory, turn: Turn) -> None:
        """Store a turn of an episode in progress. Raises: LedgerError."""
        ...


@dataclass(frozen=True, slots=True)
class EpisodeConfig:
    """The shared config of a run's episodes.

    Attributes:
        environments: makes the environments and knows their rewards.
        seed_parts: the first parts of the hash that seeds each request (the run's seed and label).
        judged: whether rewards are computed.
        fork: for a branch, the point at which it leaves its record.
        ledger: stores each finished turn.
        checkpoints: a key for each checkpoint to take; the episodes fill in the values.
        state_keys: whether turns record the environment's state key.
        end_state: whether to read the state after the last turn too, and the checkpoint if `checkpoints` has its key.
        hooks: the hooks of each episode, in calling order.
    """

    environments: EnvironmentFactory
    budgets: Budgets
    temperature: float = 1.0
    top_p: float = 1.0
    seed_parts: tuple[object, ...] = ()
    judged: bool = True
    fork: Fork | None = None
    ledger: TurnRecord | None = None
    checkpoints: Checkpoints | None = None
    state_keys: bool = True
    end_state: bool = False
    hooks: tuple[EpisodeHook, ...] = ()

    def provenance(self, seed: int, additions: tuple[PromptAddition, ...]) -> Provenance:
        """Return the settings that every episode records. `seed`: the run's seed. `additions`: texts in every
        prompt.
        """
        return Provenance(
            agentgym=__version__,
            seed=seed,
            temperature=self.temperature,
            top_p=self.top_p,
            max_turn_tokens=self.budgets.max_turn_tokens,
            hooks=recorded_options(self.hooks),
            additions=additions,
        )

    def keep_checkpoint(self, trajectory: Trajectory, checkpoint: Checkpoint | None) -> None:
        """Store the checkpoint taken before the next turn in `checkpoints`, if one was taken and has a key there."""
        key = (trajectory.task.id, trajectory.sample, len(trajectory.turns))
        if checkpoint is not None and self.checkpoints is not None and key in self.checkpoints:
            self.checkpoints[key] = checkpoint

    def make_environment(self, task: Task, turn: int = 0) -> Environment:
        """Make a fresh environment for the turns from `turn` on.

        In a branch with a checkpoint, the environment answers the turns before the fork from the record. Its reset
        restores the checkpoint, unless a hook renewed the environment between `turn` and the fork.
        """
        environment, fork = self.environments.make(task), self.fork
        if fork is None or fork.checkpoint is None or turn > fork.turn:
            return environment
        before = fork.trajectory.turns[turn : fork.turn]
        is_renewed = any(hook.renewed_after(recorded) for recorded in before for hook in self.hooks)
        return RestoredEnvironment(environment, fork, before, restores=not is_renewed)

    @property
    def added_weights(self) -> dict[str, float]:
        """The weights of the reward components that the hooks add."""
        return added_weights(self.hooks)

    def reward_for(self, environment: Environment) -> Reward | None:
        """Return the reward if episodes are judged, or if a hook needs it; else None."""
        is_asked = self.judged or any(hook.needs_reward for hook in self.hooks)
        return self.environments.reward_for(EnvironmentWrapper.unwrap(environment)) if is_asked else None


@dataclass(frozen=True, slots=True)
class EpisodeJob:
    """An episode to be played.

    Attributes:
        position: number of the episode in the run; the episodes of a group are consecutive.
        trajectory: the trajectory to fill in.
        fork: for a branch, the point where it leaves its record.
        addition: a prompt addition for this episode alone, such as help in training.
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
) -> Iterator[EpisodeJob]:
    """Yield every episode to play. A repeated task gets new sample numbers, so that ids stay unique.

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
                    f"{task.id!r} is a task of the split {task.split!r}, so it cannot be played with a "
                    f"{addition.kind}: only training tasks may be played with help."
                )
            trajectory = Trajectory(f"{label}/{task.id}#{sample}", task.copy(), sample, seed_of(seed, task.id))
            yield EpisodeJob(position, trajectory, addition=addition)
            position += 1


def branch_jobs(forks: Iterable[Fork], group_size: int, *, label: str) -> Iterator[EpisodeJob]:
    """Yield every branch to play, with sample numbers that are unique per task."""
    samples: Counter[str] = Counter()
    position = 0
    for fork in forks:
        origin = fork.trajectory
        for _ in range(group_size):
            sample = samples[origin.task.id]
            samples[origin.task.id] += 1
            episode_id = f"{label}/{origin.id}@{fork.turn}#{sample}"
            trajectory = Trajectory(episode_id, origin.task.copy(), sample, origin.seed)
            yield EpisodeJob(position, trajectory, fork)
            position += 1
