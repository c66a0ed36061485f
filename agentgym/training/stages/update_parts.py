"""Parts of a reinforcement that change how the policy is updated: the reference, roles, and earlier entropies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from typing_extensions import override

from agentgym.policy.adapters import has_adapter
from agentgym.policy.lora_options import LoraOptions
from agentgym.training.fit import TrainingPlan
from agentgym.training.loss.entropy_history import EntropyHistory
from agentgym.training.loss.role_order import RoleOrder, RoleRotation
from agentgym.training.model.reference import ReferenceCallback, reference_of
from agentgym.training.model.signal_to_noise import GroupGradients, SignalToNoiseCallback
from agentgym.training.objectives import LossRequirements
from agentgym.training.parts import TrainingPart, TrainingRun
from agentgym.training.processes import Processes
from agentgym.training.recipe.train_section import TrainSection


class Reference(TrainingPart):
    """The reference model of [train.reference], for the KL term and for comparisons.

    Args:
        model, processing_class: the model at the start of the reinforcement, and its tokenizer or processor.
    """

    def __init__(self, section: TrainSection, model: Any, processing_class: Any, processes: Processes) -> None:
        self._section, self._processes = section, processes
        self._model, self._processing_class = model, processing_class
        self._callback = ReferenceCallback(section.reference)
        self._making = ExitStack()  # until the trainer has taken the saved reference
        self._checkpoint: Path | None = None

    @override
    def prepare(self, run: TrainingRun) -> None:
        self._checkpoint = run.checkpoint
        if self._section.keeps_reference and not has_adapter(self._model):
            start = self._model, self._processing_class, run.folder.checkpoints, run.checkpoint, self._processes
            self._making.enter_context(reference_of(*start))

    @override
    def callbacks(self) -> Sequence[Any]:
        return [self._callback]

    @override
    def attach(self, trainer: Any) -> None:
        self._making.close()
        self._callback.attach(trainer, self._checkpoint)

    @override
    def validated(self, metrics: Mapping[str, float]) -> None:
        self._callback.note(metrics)

    @override
    def close(self) -> None:
        self._making.close()


class PastEntropies(TrainingPart):
    """The policy's entropies in earlier steps, for terms that need them."""

    def __init__(self) -> None:
        self._history = EntropyHistory()

    @override
    def trainer_options(self) -> Mapping[str, Any]:
        return {"entropy_history": self._history}

    @override
    def save(self, folder: Path) -> None:
        self._history.save(folder)

    @override
    def restore(self, folder: Path) -> None:
        self._history.load(folder)


class RoleUpdates(TrainingPart):
    """The order in which roles are updated, and the rotation of their adapters.

    Args:
        lora: the policy's LoRA options; None for a policy without adapters.
    """

    def __init__(self, section: TrainSection, lora: LoraOptions | None) -> None:
        order = section.roles.order
        self._order = RoleOrder(order, lora.roles[0]) if order and lora is not None else None
        self._every = section.roles.rotate_every * section.passes

    @override
    def trainer_options(self) -> Mapping[str, Any]:
        return {"role_order": self._order}

    @override
    def callbacks(self) -> Sequence[Any]:
        return [RoleRotation(self._every)] if self._every else []


class SignalToNoise(TrainingPart):
    """The learning rate of `train.optimiser.snr_learning_rate`, which follows the signal-to-noise of the groups.

    Args:
        needs: what the objective and each term need.
    """

    def __init__(self, needs: Sequence[LossRequirements]) -> None:
        self._callback, self._needs = SignalToNoiseCallback(), needs

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        begins = "train.optimiser.snr_learning_rate: the ratio"
        if plan.process_count > 1:
            yield f"{begins} is measured in one process, and this run has several. Leave one of them out."
        if any(needs.rows != ("policy",) for needs in self._needs):
            yield (
                f"{begins} counts the policy's own groups, and a loss of this recipe trains on other episodes. Leave "
                "one of them out."
            )
        if plan.train.trl.get("gradient_accumulation_steps", 1) != 1:
            yield (
                f"{begins} is of one batch, and [train.trl] gradient_accumulation_steps joins several. Leave one of "
                "them out."
            )

    @override
    def trainer_options(self) -> Mapping[str, Any]:
        return {"group_gradients": GroupGradients()}

    @override
    def callbacks(self) -> Sequence[Any]:
        return [self._callback]

    @override
    def attach(self, trainer: Any) -> None:
        self._callback.trainer = trainer
