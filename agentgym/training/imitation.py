"""Supervised imitation of trajectories by their exact tokens, with TRL's SFTTrainer.

The loss is on the agent's own tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence
from transformers import PrinterCallback
from trl import SFTConfig, SFTTrainer

from agentgym import registry
from agentgym.policy.role_adapters import in_roles, role_adapters_of
from agentgym.policy.vision_inputs import VisionInputs
from agentgym.storage.checkpoints import latest_checkpoint
from agentgym.training.loss.labelled_head import own_forward_restored, project_labelled_only
from agentgym.training.loss.microbatches import RowSizes, loss_in_parts, parts_alike
from agentgym.training.loss.row_data import ROW_DATA, RowData
from agentgym.training.model.grpo_config import DECAY_TO_A_TENTH, training_arguments
from agentgym.training.model.model_failures import out_of_memory_named
from agentgym.training.model.models import train_from
from agentgym.training.model.sharding import ShardingTrainer, sharding_arguments
from agentgym.training.monitoring.callbacks import CheckpointCompleteCallback
from agentgym.training.processes import ALONE, Processes
from agentgym.training.recipe.stage_section import MICROBATCH_TOKENS
from agentgym.training.recipe.warm_start_section import ADAMW
from agentgym.trajectory.record import Trajectory


@dataclass(frozen=True, slots=True)
class Example:
    """A trajectory to imitate."""

    trajectory: Trajectory
    """The tokenised trajectory (see agentgym.training.demonstrate.tokenise)."""
    weight: float = 1.0
    """Factor on the trajectory's loss."""
    turn: int | None = None
    """The only turn to imitate; None for all turns of the agent."""

    def rows(self) -> list[Example]:
        """Return an example for each row of the trajectory that has a turn to imitate."""
        return [
            replace(self, trajectory=row)
            for row in self.trajectory.rows()
            if any(self.turn in (None, own.index) for own in row.turns)
        ]


@dataclass(frozen=True, kw_only=True)
class ImitationOptions:
    """The options of `imitate`."""

    folder: Path
    """The folder of checkpoints; only the last is kept. Training resumes from an existing checkpoint."""
    steps: int
    """Number of optimiser steps. After a short warm-up, the learning rate decays to a tenth."""
    batch_size: int
    """Number of examples per step, over all processes."""
    learning_rate: float
    """The peak learning rate."""
    seed: int
    """Seed for the order of the examples."""
    microbatch_tokens: int = MICROBATCH_TOKENS
    """Maximum number of tokens, with padding, of the parts in which a step is computed."""
    optimizer: str = ADAMW
    """`adamw`, or the registered name of an optimiser, which is called with the model and `learning_rate`."""
    save_every: int | None = None
    """Number of steps between checkpoints; None to save none."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass instead of storing them."""
    use_cpu: bool = True
    """Whether the model is on a CPU."""
    sharding: str | None = None
    """See the recipe's `machine.sharding`."""


def imitate(
    model: Any,
    tokenizer: Any,
    examples: Sequence[Example],
    options: ImitationOptions,
    *,
    callbacks: Sequence[Any] = (),
    vision_inputs: VisionInputs | None = None,
    processes: Processes = ALONE,
) -> None:
    """Train `model` in place, resuming from the folder's last complete checkpoint if there is one.

    Args:
        callbacks: transformers TrainerCallbacks; one may stop the training.
        vision_inputs: prepares the examples' images for a model that reads images; None for other models.
        processes: the processes that train together. Each takes its part of every batch.
    Raises: PolicyError if memory runs out.
    """
    rows = [row for example in examples for row in example.rows()]
    is_weighted = any(row.weight != 1.0 for row in rows)
    is_plain = vision_inputs is None and not is_weighted and role_adapters_of(model) is None
    shared_arguments = training_arguments(
        options.folder,
        steps=options.steps,
        batch_size=processes.part_of(options.batch_size, "warm_start.batch_size"),
        learning_rate=options.learning_rate,
        max_grad_norm=1.0,
        save_every=options.save_every,
        keep_checkpoints=1,
        gradient_checkpointing=options.gradient_checkpointing,
        seed=options.seed,
        use_cpu=options.use_cpu,
    )
    config = SFTConfig(
        **shared_arguments,
        **DECAY_TO_A_TENTH,
        warmup_steps=min(20, options.steps // 10),
        logging_steps=10,
        max_length=None,
        bf16=False,
        adam_beta2=0.98,
        remove_unused_columns=is_plain,
        ddp_find_unused_parameters=vision_inputs is not None,  # a batch may have no image
        **sharding_arguments(options.sharding),
    )
    optimizer = None
    if options.optimizer != ADAMW:
        optimizer = registry.load("optimisers", options.optimizer)(model, learning_rate=options.learning_rate)
    make_trainer = partial(
        ImitationTrainer,
        model,
        microbatch_tokens=options.microbatch_tokens,
        vision_inputs=vision_inputs,
        args=config,
        train_dataset=Dataset.from_list(_supervised_rows(rows)),
        processing_class=tokenizer,
        callbacks=[*callbacks, CheckpointCompleteCallback()],
        optimizers=(optimizer, None),
        data_collator=None if is_plain else _RowCollator(vision_inputs, tokenizer, rows),
    )
    remedy = "Lower warm_start.microbatch_tokens, or set machine.gradient_checkpointing."
    with own_forward_restored(model), out_of_memory_named("the warm start", remedy):
        trainer = make_trainer()
        trainer.remove_callback(PrinterCallback)  # it prints every log line, but we print our own
        train_from(trainer, latest_checkpoint(options.folder))


def _supervised_rows(examples: Sequence[Example]) -> list[dict[str, Any]]:
    """Return the token ids and labels of each example; the label -100 leaves a token out of the loss."""
    rows = []
    for index, example in enumerate(examples):
        arrays, turn = example.trajectory.arrays(), example.turn
        imitated = arrays.loss_mask if turn is None else arrays.loss_mask & (arrays.turn_index == turn)
        labels = [int(i) if own else -100 for i, own in zip(arrays.ids, imitated, strict=True)]
        rows.append({"input_ids": arrays.ids.tolist(), "labels": labels, "row": index})
    return rows


class ImitationTrainer(ShardingTrainer, SFTTrainer):
    """SFTTrainer that computes a batch in parts and applies the output layer to labelled tokens only.

    Args:
        microbatch_tokens: maximum number of tokens in a part, with padding.
        vision_inputs: prepares images for a model that reads them; None for other models.
        arguments: the arguments of SFTTrainer.
    """

    def __init__(
        self, *arguments: Any, microbatch_tokens: int, vision_inputs: VisionInputs | None, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        project_labelled_only(self.model)
        self._microbatch_tokens, self._vision_inputs = microbatch_tokens, vision_inputs
        self._processes = Processes(self.accelerator.process_index, self.accelerator.num_processes)

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """Return the sum of SFTTrainer's losses of the parts, each divided by the batch's labelled tokens."""
        lengths = inputs["attention_mask"].sum(1)
        of_all = self._processes.gather(RowSizes.unshared(lengths[:, None].cpu().numpy()))
        parts = parts_alike(of_all, self._processes.rank, self._microbatch_tokens)

        def loss_of(rows: np.ndarray) -> torch.Tensor:
            index = torch.as_tensor(rows, device=lengths.device)
            names, width = ("input_ids", "attention_mask", "labels"), int(lengths[index].max())
            part = {name: inputs[name][index, :width] for name in names}
            data = [inputs[ROW_DATA][row] for row in rows] if ROW_DATA in inputs else []
            if self._vision_inputs is not None:
                images = [row.images for row in data]
                part |= self._vision_inputs.model_kwargs(part["input_ids"], images, self.model)
            with in_roles(self.accelerator.unwrap_model(self.model), [role for row in data for role in row.roles]):
                if (weights := inputs.get("row_weights")) is not None:
                    return self._weighted_loss(model, part, weights[index], num_items_in_batch)
                loss: torch.Tensor = super(ImitationTrainer, self).compute_loss(
                    model, part, num_items_in_batch=num_items_in_batch
                )
                return loss

        return loss_in_parts(self, model, parts, loss_of)

    def _weighted_loss(
        self, model: Any, part: dict[str, Any], weights: torch.Tensor, num_items_in_batch: Any
    ) -> torch.Tensor:
        """Return SFTTrainer's loss with each row's tokens weighted; the divisor is still the number of labelled
        tokens.
        """
        outputs = model(**part, use_cache=False, fused_lm_head=True)
        tokens = outputs.label_mask.sum() if num_items_in_batch is None else num_items_in_batch
        loss: torch.Tensor = -(outputs.log_probs * weights[:, None]).sum() / torch.as_tensor(tokens).clamp(min=1)
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            loss = loss * self.accelerator.num_processes
        return loss


class _RowCollator:
    """Make a batch of supervised rows, padded on the right, with their images, weights and roles."""

    def __init__(self, vision_inputs: VisionInputs | None, tokenizer: Any, examples: Sequence[Example]) -> None:
        self._pad = int(tokenizer.pad_token_id)
        self._rows = [RowData.of(example.trajectory, vision_inputs) for example in examples]
        weights = [example.weight for example in examples]
        self._weights = weights if any(weight != 1.0 for weight in weights) else None

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        def padded(name: str, filler: int) -> torch.Tensor:
            return pad_sequence([torch.tensor(row[name]) for row in rows], batch_first=True, padding_value=filler)

        ids, labels = padded("input_ids", self._pad), padded("labels", -100)
        lengths = torch.tensor([len(row["input_ids"]) for row in rows])
        mask = (torch.arange(ids.size(1)) < lengths[:, None]).long()
        batch: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "labels": labels}
        batch[ROW_DATA] = [self._rows[row["row"]] for row in rows]
        if self._weights is not None:
            batch["row_weights"] = torch.tensor([self._weights[row["row"]] for row in rows])
        return batch
