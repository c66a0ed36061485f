"""What some objectives and terms are given beside the policy's own episodes: a teacher, experts, optimal values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from agentgym.errors import CreditError
from agentgym.task import Task
from agentgym.training.loss.grpo_batches import OtherRows, imitation_rows
from agentgym.training.loss.row_data import ROW_DATA
from agentgym.training.loss.step_batch import StepTrainer
from agentgym.training.loss_inputs.corrections import ThoughtCorrector
from agentgym.training.loss_inputs.experts import Experts
from agentgym.training.loss_inputs.optimal_values import OptimalValues
from agentgym.training.loss_inputs.teacher import teacher_logps
from agentgym.training.objectives import Needs
from agentgym.training.objectives.contract import Rows
from agentgym.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class LossInputs:
    """What a run can give to its objective and terms.

    Attributes:
        teacher: a prepared model (see agentgym.training.loss_inputs.teacher).
        experts, optimal_values, corrector: None where nothing needs them.
    """

    teacher: Any = None
    experts: Experts | None = None
    optimal_values: OptimalValues | None = None
    corrector: ThoughtCorrector | None = None

    def check(self, needs: Mapping[str, Needs], reference: bool) -> None:
        """Raises: CreditError naming the loss that needs what is not here.

        Args:
            needs: of each objective and term, by its name. reference: whether there is a reference model.
        """
        missing = {
            "reference": not reference,
            "teacher": self.teacher is None,
            "optimal_values": self.optimal_values is None,
        }
        for name, of_loss in needs.items():
            absent = [what for what, is_missing in missing.items() if is_missing and getattr(of_loss, what)]
            absent += ["experts"] if "experts" in of_loss.rows and self.experts is None else []
            absent += ["a corrector"] if "corrections" in of_loss.rows and self.corrector is None else []
            if absent:
                raise CreditError(f"{name} needs {absent[0].replace('_', ' ')}, which the trainer was not given.")

    def columns(self, trainer: StepTrainer, batch: dict[str, Any], tasks: Sequence[Task]) -> dict[str, torch.Tensor]:
        """Further columns of the policy's own batch. `tasks`: of each group of the step."""
        columns: dict[str, torch.Tensor] = {}
        groups = batch["group_of_row"].cpu()
        if self.teacher is not None:
            columns["teacher_logps"] = teacher_logps(self.teacher, trainer, batch)
        if self.optimal_values is not None:
            values = trainer.processes.share(lambda: self.optimal_values.of(tasks))  # type: ignore[union-attr]
            columns["optimal_values"] = torch.tensor(values)[groups]
        if self.experts is not None:
            columns["expert_returns"] = _returns(self.experts.of(tasks))[groups]
        return {name: values.to(batch["advantages"]) for name, values in columns.items()}

    def other_rows(
        self, trainer: StepTrainer, trajectories: Sequence[Trajectory], group_size: int
    ) -> dict[Rows, OtherRows]:
        """The episodes that are imitated in a step: one expert's for each group, and corrected turns."""
        rows: dict[Rows, OtherRows] = {}
        starts = range(0, len(trajectories), group_size)
        if self.experts is not None:
            episodes = self.experts.of([trajectories[start].task for start in starts])
            present = [(episode, group) for group, episode in enumerate(episodes) if episode is not None]
            batch = self._batch(trainer, present, trajectories, group_size)
            if batch:
                batch["expert_returns"] = _returns(episodes)[batch["group_of_row"].cpu()].to(batch["episode_returns"])
            rows["experts"] = OtherRows(batch, len(episodes))
        if self.corrector is not None:
            present = [(turn, index // group_size) for index, turn in self.corrector.of(trajectories)]
            rows["corrections"] = OtherRows(
                self._batch(trainer, present, trajectories, group_size), max(len(present), 1)
            )
        return {kind: others for kind, others in rows.items() if others.batch}

    @staticmethod
    def _batch(
        trainer: StepTrainer,
        episodes: Sequence[tuple[Trajectory, int]],
        trajectories: Sequence[Trajectory],
        group_size: int,
    ) -> dict[str, Any]:
        if not episodes:
            return {}
        batch = imitation_rows(episodes, trajectories, group_size, trainer.end_and_pad_ids)
        device = trainer.accelerator.device
        batch = {name: values.to(device) for name, values in batch.items()}
        # The policy imitates them without the masks that they may have been sampled under.
        return {**batch, ROW_DATA: [replace(trainer.row_data(episode), masks=()) for episode, _ in episodes]}


def _returns(episodes: Sequence[Trajectory | None]) -> torch.Tensor:
    """(groups,) the return of each expert's episode; NaN where there is none."""
    values = [float("nan") if episode is None else episode.return_from() for episode in episodes]
    return torch.tensor(values, dtype=torch.float64)
