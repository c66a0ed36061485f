"""StepBatch: a step whose loss is about to be computed, as the parts of the training see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import torch

from agentgym.task import Task
from agentgym.training.loss.grpo_batches import OtherRows, imitation_rows
from agentgym.training.loss.row_data import ROW_DATA, RowData
from agentgym.training.processes import Processes
from agentgym.training.rollouts.rollouts import Rollouts
from agentgym.trajectory import Trajectory

T = TypeVar("T")


class StepTrainer(Protocol):
    """What a step needs of its trainer: its processes, its device, and what a pass needs of an episode."""

    accelerator: Any
    processes: Processes

    @property
    def end_and_pad_ids(self) -> tuple[int, int]:
        """The token ids that end a text, and that pad it."""
        ...

    def row_data(self, trajectory: Trajectory) -> RowData:
        """Return what a forward pass needs of an episode beside its tokens."""
        ...


@dataclass(frozen=True, slots=True)
class StepBatch:
    """A step whose loss is about to be computed.

    Attributes:
        batch: the rows of this process, a batch of TRL's form with the columns of its groups.
        trajectories: the policy's episodes of the step, of all processes; groups are consecutive.
        group_size: episodes of a group.
        rollouts: plays further episodes as those of this step were played.
        trainer: the trainer of the step.
    """

    batch: dict[str, Any]
    trajectories: Sequence[Trajectory]
    group_size: int
    rollouts: Rollouts
    trainer: StepTrainer

    @property
    def tasks(self) -> list[Task]:
        """The task of each group."""
        return [trajectory.task for trajectory in self.trajectories[:: self.group_size]]

    @property
    def group_of_row(self) -> torch.Tensor:
        """(B,) the index of each row's group, in main memory."""
        groups: torch.Tensor = self.batch["group_of_row"].cpu()
        return groups

    def share(self, make: Callable[[], T]) -> T:
        """Let the first process make something, and give it to every process. All must call this together."""
        return self.trainer.processes.share(make)

    def imitated(self, episodes: Sequence[tuple[Trajectory, int]], count: int) -> OtherRows:
        """Make a batch of episodes that the policy did not play, for losses that imitate them. It may be empty.

        Args:
            episodes: each with the index of its group, and with token ids of the policy.
            count: by which the sum of their losses is divided.
        """
        if not episodes:
            return OtherRows({}, count)
        rows = imitation_rows(episodes, self.trajectories, self.group_size, self.trainer.end_and_pad_ids)
        batch: dict[str, Any] = {name: values.to(self.trainer.accelerator.device) for name, values in rows.items()}
        # The policy imitates them without the masks that they may have been sampled under.
        batch[ROW_DATA] = [replace(self.trainer.row_data(episode), masks=()) for episode, _ in episodes]
        return OtherRows(batch, count)
