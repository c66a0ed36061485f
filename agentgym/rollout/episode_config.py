"""What the episodes of a run have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agentgym.environment import Checkpoint, Environment
from agentgym.reward import Reward
from agentgym.rollout.attempts import Attempts, ends_attempt
from agentgym.rollout.budgets import Budgets
from agentgym.rollout.early_stop import Situation, StopRule
from agentgym.rollout.environments import EnvironmentFactory
from agentgym.rollout.live_environment import EnvironmentState, LiveEnvironment
from agentgym.rollout.replay import Fork, RestoredEnvironment
from agentgym.task import Task
from agentgym.trajectory import Trajectory, Turn

Checkpoints = dict[tuple[str, int, int], Checkpoint | None]
"""By task id, sample, and the turn before which the checkpoint was taken; None where none was."""


class TurnRecord(Protocol):
    """Keeps each turn of an episode when it is finished, as `agentgym.storage.Ledger` does."""

    def begin(self, trajectory: Trajectory) -> None:
        """Told that an episode starts, or starts over."""
        ...

    async def write_turn(self, trajectory: Trajectory, turn: Turn) -> None:
        """Keep a turn of an episode in progress. Raises: LedgerError."""
        ...


@dataclass(frozen=True, slots=True)
class EpisodeConfig:
    """What the episodes of a run have in common.

    Attributes:
        environments: makes the environments and knows their rewards.
        seed_parts: begin the hash that seeds each request (the run's seed and label).
        judged: whether rewards are asked.
        fork: for a branch, where it leaves its record.
        ledger: keeps each turn when it is finished.
        checkpoints: filled in at those of its keys that occur.
        state_keys: whether turns record the environment's state key.
        end_state: whether the state after the last turn is read too, and its checkpoint if that is a key.
        instruction: see RolloutConfig.
        stop_if: see RolloutConfig. They are not asked in the turns that a branch repeats.
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
    stop_if: tuple[StopRule, ...] = ()
    instruction: str = ""

    def keep_checkpoint(self, trajectory: Trajectory, checkpoint: Checkpoint | None) -> None:
        """Hand out the checkpoint before the next turn, if there is one and the caller of the run wants it."""
        key = (trajectory.task.id, trajectory.sample, len(trajectory.turns))
        if checkpoint is not None and self.checkpoints is not None and key in self.checkpoints:
            self.checkpoints[key] = checkpoint

    def make_environment(self, task: Task) -> Environment:
        """A fresh environment; of a branch with a checkpoint, one that is put back to it by its reset."""
        environment = self.environments.make(task)
        if self.fork is not None and self.fork.checkpoint is not None:
            return RestoredEnvironment(environment, self.fork)
        return environment

    @property
    def attempts(self) -> Attempts | None:
        """How often an episode tries its task; None for once."""
        return self.environments.config.attempts

    async def is_hopeless(
        self, trajectory: Trajectory, state: EnvironmentState, environment: LiveEnvironment, attempt_start: int
    ) -> bool:
        """Whether a stop rule ends an attempt before its next turn; the reason is put into its provenance.

        In the turns that a branch repeats an attempt ends where it did in the record.

        Args:
            attempt_start: the rules look at the turns from here on: each attempt begins in a fresh environment.
        """
        turns = trajectory.turns
        if len(turns) <= attempt_start:
            return False
        if self.fork is not None and len(turns) <= self.fork.turn:
            return ends_attempt(self.attempts, self.fork.trajectory.turns[len(turns) - 1])
        situation = Situation(turns[attempt_start:], state, self.budgets.max_turns - len(turns))
        for rule in self.stop_if:
            if (reason := await rule.reason(situation, environment)) is not None:
                trajectory.provenance.hopeless = reason
                return True
        return False

    def reward_for(self, environment: Environment) -> Reward | None:
        """Who judges an episode, or tells where an attempt ends what it was worth."""
        return self.environments.reward_for(environment.unwrapped) if self.judged or self.attempts else None
