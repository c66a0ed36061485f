"""The data that training parts receive: a step before its loss is computed, and each pass over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import torch

from agentgym.rollout.rollouts import Rollouts
from agentgym.task.definition import Task
from agentgym.training.loss.grpo_batches import OtherRows, imitation_rows, input_column, inputs_of, own_tokens, spread
from agentgym.training.loss.row_data import ROW_DATA, RowData
from agentgym.training.objectives import TokenBatch
from agentgym.training.processes import Processes
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

    @property
    def own_trajectories(self) -> Sequence[Trajectory]:
        """Return the episode of each row of this process."""
        return self.trainer.processes.own_part([*self.trajectories])

    def by_turn(self, values: Sequence[Sequence[float]]) -> torch.Tensor:
        """Return for each token the value of its turn, (B, T); -1 for tokens of no turn.

        Args:
            values: a number for each turn of each row's episode.
        """
        return spread(values, self.batch["turn_of_token"])

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


@dataclass(frozen=True, slots=True)
class BatchPass:
    """One pass over a step's batch, before its loss is computed.

    Attributes:
        batch: a batch in TRL's format.
        number: the number of the pass over the batch, from 0.
        score: returns (B, T) the current log-probabilities of the own tokens of a batch.
    """

    batch: dict[str, Any]
    number: int
    score: Callable[[dict[str, Any]], torch.Tensor]

    @property
    def own(self) -> torch.Tensor:
        """Return (B, T) 1 on the tokens that the pass trains on."""
        return own_tokens(self.batch)

    @property
    def advantages(self) -> torch.Tensor:
        """Return (B, T) the advantage of each token's turn."""
        advantages: torch.Tensor = self.batch["advantages"]
        return advantages

    @property
    def behaviour_logps(self) -> torch.Tensor:
        """Return (B, T) log-probabilities under the policy that sampled the tokens."""
        logps: torch.Tensor = self.batch["old_per_token_logps"]
        return logps

    @property
    def turns(self) -> torch.Tensor:
        """Return (B, T) the index of each token's turn; -1 where the token is not the agent's."""
        turns: torch.Tensor = self.batch["turn_of_token"]
        return turns

    @property
    def inputs(self) -> Mapping[str, torch.Tensor]:
        """Return the further inputs of losses that training parts added with `changed`, by name."""
        return inputs_of(self.batch)

    def logps(self, own: torch.Tensor) -> torch.Tensor:
        """Return (B, T) the current log-probabilities where `own` is 1, without gradient."""
        return self.score({**self.batch, "tool_mask": own})

    def changed(
        self,
        *,
        own: torch.Tensor | None = None,
        advantages: torch.Tensor | None = None,
        inputs: Mapping[str, torch.Tensor] = {},
    ) -> BatchPass:
        """Return a copy of the pass that trains on the tokens `own`, with these `advantages`, or with further inputs of
        losses. None: unchanged.
        """
        columns = {"tool_mask": own, "advantages": advantages}
        batch = {**self.batch, **{name: column for name, column in columns.items() if column is not None}}
        return replace(self, batch=batch | {input_column(name): values for name, values in inputs.items()})


class PassPart(Protocol):
    """Takes part in the passes over a batch, as every TrainingPart does."""

    def change_pass(self, update: BatchPass) -> BatchPass:
        """Return the pass with the part's changes."""
        ...

    def observe(self, tokens: TokenBatch) -> None:
        """Receive some of the policy's episodes, with their scores, in the first training pass over a batch."""
        ...

    def end_batch(self, gather: Callable[[Any], list[Any]]) -> None:
        """Take note that the first training pass over a batch has ended."""
        ...


UNNAMED = "unnamed"
"""The role of turns without a role, in metric names."""


def role_metrics(trajectories: Sequence[Trajectory], batch: Mapping[str, Any]) -> dict[str, float]:
    """Return `roles/NAME/reward` and `roles/NAME/kl` of each role in a batch; nothing if no turn has a role.

    Returns: the mean return of the episodes with the role, and, if there is a reference model, the mean KL of the
        role's tokens to the reference, in nats. Turns without a role count as `unnamed`.
    """
    names = sorted({turn.role or UNNAMED for trajectory in trajectories for turn in trajectory.turns})
    if names in ([], [UNNAMED]):
        return {}
    metrics: dict[str, float] = {}
    numbers = [[names.index(turn.role or UNNAMED) for turn in trajectory.turns] for trajectory in trajectories]
    by_token = spread(numbers, batch["turn_of_token"])
    reference, sampled = batch.get("ref_per_token_logps"), batch.get("old_per_token_logps")
    for number, name in enumerate(names):
        plays = [t for t, of_turns in zip(trajectories, numbers, strict=True) if t.valid and number in of_turns]
        if plays:
            metrics[f"roles/{name}/reward"] = sum(t.return_from() for t in plays) / len(plays)
        own = by_token == number
        if reference is not None and sampled is not None and own.any():
            gap = (reference - sampled)[own]
            metrics[f"roles/{name}/kl"] = float((gap.exp() - gap - 1).mean())
    return metrics
