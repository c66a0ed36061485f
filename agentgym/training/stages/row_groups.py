"""Trains on groups of rows that are compared with each other, such as pairs, labelled episodes or ranked episodes."""

from __future__ import annotations

import gc
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from transformers import PrinterCallback, Trainer, TrainingArguments
from trl.trainer.utils import disable_dropout_in_model

from agentgym.policy.adapters import own_model
from agentgym.storage.checkpoints import latest_checkpoint, step_of
from agentgym.training.loss.microbatches import RowSizes, loss_in_parts, parts_alike
from agentgym.training.loss.scored_rows import ScoredRow, fixed_scores, scores_of, scoring_head
from agentgym.training.model.grpo_config import DECAY_TO_A_TENTH, training_arguments
from agentgym.training.model.model_failures import DivergenceCallback, out_of_memory_named
from agentgym.training.model.models import load_saved, train_from
from agentgym.training.monitoring.callbacks import CheckpointCompleteCallback, LoggingCallback
from agentgym.training.processes import Processes
from agentgym.training.recipe.stage_section import LearningSection
from agentgym.training.stages.context import Learner, RunContext


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that are compared with each other.

    Attributes:
        rows: rows of one task. `reference`: each row's score under the reference model; 0 for a loss without one.
        values: the value of each row; see the loss.
    """

    rows: Sequence[ScoredRow]
    reference: Sequence[float]
    values: Sequence[float]

    @property
    def padded_tokens(self) -> int:
        return len(self.rows) * max(len(row.ids) for row in self.rows)

    @staticmethod
    def score(
        context: RunContext, learner: Learner, rows: Sequence[ScoredRow], microbatch_tokens: int, *, stage: str = ""
    ) -> list[float]:
        """Return the rows' scores, [rows] sums of weight x log-probability, without gradient.

        Args:
            stage: an earlier stage, whose checkpoint scores; "" for the learner's current weights.
        """
        if not stage:
            return fixed_scores(learner.model, rows, microbatch_tokens)
        model, _ = load_saved(context.recipe.policy, context.earlier_checkpoints[stage], context.device)
        scores = fixed_scores(model, rows, microbatch_tokens)
        del model
        gc.collect()
        return scores

    @staticmethod
    def train(
        context: RunContext,
        learner: Learner,
        groups: Sequence[RowGroup],
        loss: RowsLoss,
        section: LearningSection,
        *,
        checkpoint: str,
    ) -> Learner:
        """Train on groups of rows and save the stage's checkpoint; resume an interrupted training.

        Args:
            groups: the data set; a step takes `section.batch_size` groups.
            checkpoint: the name of the checkpoint that the stage was defined with.
        Raises: PolicyError if memory runs out.
        """
        folder = context.folder.checkpoints / f"{checkpoint}_steps"
        context.processes.share(lambda: context.folder.forget((context.stage,), step_of(latest_checkpoint(folder))))
        bar = context.progress.add_task(context.stage, total=section.steps, line_a_note=True)
        noted = {"loss": "loss", "accuracy": "accuracy", "misordered": "misordered"}
        train_on_groups(
            context,
            learner.model,
            groups,
            loss,
            section,
            folder=folder,
            callbacks=[
                LoggingCallback(context.folder, context.stage, context.progress, bar, noted),
                DivergenceCallback(context.stage, f"the learning_rate of the stage {context.stage!r}"),
            ],
        )

        def save() -> None:
            learner.save(context.folder.checkpoints / checkpoint)
            shutil.rmtree(folder, ignore_errors=True)

        context.processes.share(save)
        return learner


class RowsLoss(Protocol):
    """The loss of one group of rows.

    Attributes:
        baseline_row: the index, in every group, of a row that is used only for `baseline`, which is this row's score
            minus its reference score, averaged over the batch, but at least 0. None for a loss without a baseline.
    """

    @property
    def baseline_row(self) -> int | None: ...

    def __call__(
        self, scores: torch.Tensor, reference: torch.Tensor, values: torch.Tensor, baseline: float
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """Return the loss, a scalar, and metrics.

        Args:
            scores: [R] scores under the policy. `reference`: [R] scores under the reference model.
            values: [R] values of the group's rows; each loss defines their meaning.
        """
        ...


def train_on_groups(
    context: RunContext,
    model: Any,
    groups: Sequence[RowGroup],
    loss: RowsLoss,
    section: LearningSection,
    *,
    folder: Path,
    callbacks: Sequence[Any],
) -> None:
    """Train `model` in place, resuming from the last complete checkpoint in `folder` if there is one.

    Args:
        groups: the data set; a step takes `section.batch_size` groups.
        folder: for checkpoints; only the last is kept. `callbacks`: transformers TrainerCallbacks.
    Raises: PolicyError if memory runs out.
    """
    shared_arguments = training_arguments(
        folder,
        steps=section.steps,
        batch_size=context.processes.part_of(section.batch_size, "batch_size"),
        learning_rate=section.learning_rate,
        max_grad_norm=section.max_grad_norm,
        save_every=section.save_every,
        keep_checkpoints=1,
        gradient_checkpointing=context.recipe.machine.gradient_checkpointing,
        seed=context.recipe.seed,
        use_cpu=context.device == "cpu",
    )
    config = TrainingArguments(
        **shared_arguments,
        **DECAY_TO_A_TENTH,
        logging_steps=1,
        remove_unused_columns=False,
        ddp_find_unused_parameters=False,
    )
    disable_dropout_in_model(own_model(model))
    with scoring_head(model), out_of_memory_named("the stage", "Lower its option microbatch_tokens."):
        trainer = RowGroupTrainer(
            model,
            config,
            loss=loss,
            microbatch_tokens=section.microbatch_tokens,
            train_dataset=list(groups),
            data_collator=lambda batch: {"groups": list(batch)},
            callbacks=[*callbacks, CheckpointCompleteCallback()],
        )
        trainer.remove_callback(PrinterCallback)  # its printing of every log line is replaced by our callbacks
        train_from(trainer, latest_checkpoint(folder))


class RowGroupTrainer(Trainer):
    """transformers' Trainer with the mean loss of groups of rows, computed in parts of bounded size.

    Args:
        loss: the loss of a group. `microbatch_tokens`: maximum tokens of a part, with padding; groups are never split.
        arguments, options: the arguments of Trainer. The model must be inside `scoring_head`.
    """

    def __init__(self, *arguments: Any, loss: RowsLoss, microbatch_tokens: int, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._loss, self._microbatch_tokens = loss, microbatch_tokens
        self._processes = Processes(self.accelerator.process_index, self.accelerator.num_processes)
        self._metrics: dict[str, list[float]] = defaultdict(list)

    def compute_loss(
        self, model: Any, inputs: Mapping[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Return the mean loss over the groups of the batch."""
        groups: list[RowGroup] = inputs["groups"]
        sizes = RowSizes.unshared(np.array([[group.padded_tokens] for group in groups]))
        parts = parts_alike(self._processes.gather(sizes), self._processes.rank, self._microbatch_tokens)
        baseline = self._baseline(model, groups, parts)

        def loss_of(part: np.ndarray) -> torch.Tensor:
            return self._sum_of_losses(model, [groups[index] for index in part], baseline) / len(groups)

        loss: torch.Tensor = loss_in_parts(self, model, parts, loss_of)
        return loss

    def _sum_of_losses(self, model: Any, groups: Sequence[RowGroup], baseline: float) -> torch.Tensor:
        scored = [self._with_gradient(group.rows) for group in groups]
        scores = scores_of(model, [row for rows in scored for row in rows])
        losses, start = [], 0
        for group, rows in zip(groups, scored, strict=True):
            own_scores = scores[start : start + len(rows)]
            start += len(rows)
            reference, values = own_scores.new_tensor(group.reference), own_scores.new_tensor(group.values)
            loss, metrics = self._loss(own_scores, reference[: len(rows)], values[: len(rows)], baseline)
            losses.append(loss)
            for name, value in metrics.items():
                self._metrics[name].append(value)
        return torch.stack(losses).sum()

    def _with_gradient(self, rows: Sequence[ScoredRow]) -> Sequence[ScoredRow]:
        return rows if self._loss.baseline_row is None else rows[: self._loss.baseline_row]

    def _baseline(self, model: Any, groups: Sequence[RowGroup], parts: Sequence[np.ndarray]) -> float:
        """Return the baseline rows' scores minus their reference scores, averaged over the batch, but at least 0."""
        if (row := self._loss.baseline_row) is None:
            return 0.0
        gaps: list[float] = []
        with torch.no_grad():
            for part in parts:
                scores = scores_of(model, [groups[index].rows[row] for index in part]).tolist()
                gaps += [score - groups[index].reference[row] for index, score in zip(part, scores, strict=True)]
        return max(float(np.mean(np.concatenate(self._processes.gather(np.array(gaps))))), 0.0)

    def log(self, logs: dict[str, float], *arguments: Any, **options: Any) -> None:
        """Log as Trainer does, with the mean of each loss metric since the last call."""
        super().log(
            logs | {name: float(np.mean(values)) for name, values in self._metrics.items()}, *arguments, **options
        )
        self._metrics.clear()
