"""StepBatch: a step before its loss is computed, as the training parts see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import torch

from agentgym.task.definition import Task
from agentgym.training.loss.grpo_batches import OtherRows, imitation_rows
from agentgym.training.loss.row_data import ROW_DATA, RowData
from agentgym.training.processes import Processes
from agentgym.training.rollouts.rollouts import Rollouts
from agentgym.trajectory.record import Trajectory

T = TypeVar("T")


class StepTrainer(Protocol):
    """The trainer's interface for a step: processes, device, special tokens and row data."""

    accelerator: Any
    processes: Processes

    @property
    def end_and_pad_ids(self) -> tuple[int, int]:
        """Return the token ids for the end of a sequence and for padding."""
        ...

    def row_data(self, trajectory: Trajectory) -> RowData:
        """Return an episode's data, other than tokens, that a forward pass needs."""
        ...


@dataclass(frozen=True, slots=True)
class StepBatch:
    """A step before its loss is computed.

    Attributes:
        batch: the rows of this process, a batch in TRL's format with the group columns.
        trajectories: the policy's episodes of the step, of all processes; groups are consecutive.
        group_size: number of episodes per group.
        rollouts: plays further episodes with the same config as this step's.
        trainer: the trainer of the step.
    """

    batch: dict[str, Any]
    trajectories: Sequence[Trajectory]
    group_size: int
    rollouts: Rollouts
    trainer: StepTrainer

    @property
    def tasks(self) -> list[Task]:
        """Return the task of each group."""
        return [trajectory.task for trajectory in self.trajectories[:: self.group_size]]

    @property
    def group_of_row(self) -> torch.Tensor:
        """Return (B,) the index of each row's group, on the CPU."""
        groups: torch.Tensor = self.batch["group_of_row"].cpu()
        return groups

    def share(self, make: Callable[[], T]) -> T:
        """Call `make` in the first process and return its result in every process. All must call this together."""
        return self.trainer.processes.share(make)

    def imitated(self, episodes: Sequence[tuple[Trajectory, int]], count: int) -> OtherRows:
        """Make a batch of episodes that the policy did not play, for losses that imitate them.

        Args:
            episodes: each with its group's index, tokenised for the policy; may be empty.
            count: the divisor of the sum of their losses.
        """
        if not episodes:
            return OtherRows({}, count)
        rows = imitation_rows(episodes, self.trajectories, self.group_size, self.trainer.end_and_pad_ids)
        batch: dict[str, Any] = {name: values.to(self.trainer.accelerator.device) for name, values in rows.items()}
        # The policy imitates without the token masks of the sampler.
        batch[ROW_DATA] = [replace(self.trainer.row_data(episode), masks=()) for episode, _ in episodes]
        return OtherRows(batch, count)
