"""What the episodes of a run have in common, and where their turns are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agentgym.environment import Checkpoint, Environment
from agentgym.policy.contract import Sampling
from agentgym.reward import Reward
from agentgym.rollout.budgets import Budgets
from agentgym.task import Task
from agentgym.trajectory import Trajectory, Turn


class TurnWriter(Protocol):
    """Where turns are kept: the part of the ledger that the loop needs."""

    def begin(self, trajectory: Trajectory) -> None: ...

    async def write_turn(self, trajectory: Trajectory, turn: Turn) -> None: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What the episodes of a run have in common.

    Attributes:
        make_environment: a fresh environment for a task.
        reward_for: the reward that judges an environment, None where nothing judges.
        seed_parts: begin the hash that seeds each request (seed and run).
        keep: given each checkpoint that is taken, with its trajectory and turn; None for those who want none.
    """

    make_environment: Callable[[Task], Environment]
    reward_for: Callable[[Environment], Reward | None]
    budgets: Budgets
    sampling: Sampling
    seed_parts: tuple[object, ...] = ()
    ledger: TurnWriter | None = None
    keep: Callable[[Trajectory, int, Checkpoint], None] | None = None
