"""A second model that scores the tokens of a step: the teacher of on-policy distillation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from transformers import AutoTokenizer
from trl.trainer.utils import add_fused_lm_head, disable_dropout_in_model
from typing_extensions import override

from agentgym.errors import PolicyError, RecipeError
from agentgym.policy.checkpoint import load_checkpoint, tokenizer_of
from agentgym.storage.run_folder import checkpoint_in
from agentgym.training.fit import TrainingPlan
from agentgym.training.loss.labelled_head import project_labelled_only
from agentgym.training.loss.step_batch import StepBatch
from agentgym.training.parts import TrainingPart, TrainingRun
from agentgym.training.recipe.train_section import TeacherSection


def load_teacher(path: str, tokenizer: Any, device: str) -> Any:
    """Load a teacher with the policy's vocabulary.

    Args:
        path: a local checkpoint, a run folder, or a hub name. tokenizer: the policy's.
    Raises: RecipeError if the teacher cannot be loaded, or if its vocabulary differs.
    """
    folder = checkpoint_in(Path(path))
    try:
        model, processing_class = load_checkpoint(path if folder is None else str(folder), device=device)
    except PolicyError as error:
        raise RecipeError(f"The teacher named in train.teacher.path cannot be loaded. {error}") from error
    if tokenizer_of(processing_class).get_vocab() != tokenizer.get_vocab():
        raise RecipeError(
            f"train.teacher.path = {path!r}: this model's vocabulary differs from the policy's, so it cannot score "
            "the policy's tokens. Choose a teacher with the same tokenizer."
        )
    return model.eval().requires_grad_(False)


class TeacherScores(TrainingPart):
    """Supply losses with a second model's log-probabilities of a step's tokens: [train.teacher].

    A possible hub name is looked up only at loading.

    Args:
        loss: the key of the loss that needs the log-probabilities, for messages.
    """

    provides: ClassVar[tuple[str, ...]] = ("teacher",)

    def __init__(self, section: TeacherSection, loss: str = "") -> None:
        self._path, self._loss = section.path, loss
        self._model: Any = None
        self._trainer: Any = None

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        path, policy = self._path, plan.policy
        is_local = Path(path).exists() or path.startswith((".", "/", "~"))
        folder = checkpoint_in(Path(path))
        if is_local and folder is None:
            yield f"{self._loss} needs a teacher, and train.teacher.path = {path!r} holds no checkpoint."
        own = checkpoint_in(Path(policy.path)) if policy.path and not policy.tokenizer else None
        if folder is not None and own is not None and _vocabulary(folder) != _vocabulary(own):
            yield (
                f"{self._loss} needs a teacher with the vocabulary of policy.path = {policy.path!r}, and "
                f"train.teacher.path = {path!r} has another."
            )

    @override
    def prepare(self, run: TrainingRun) -> None:
        self._model = load_teacher(self._path, run.tokenizer, run.device)

    @override
    def attach(self, trainer: Any) -> None:
        # The teacher must compute log-probabilities like the trainer's own model.
        disable_dropout_in_model(self._model)
        head_in_fp32 = trainer.args.cast_lm_head_to_fp32
        add_fused_lm_head(self._model, temperature=trainer.temperature, cast_lm_head_to_fp32=head_in_fp32)
        project_labelled_only(self._model, trainer.token_masks)
        self._model = trainer.accelerator.prepare_model(self._model, evaluation_mode=True)
        self._trainer = trainer

    @override
    def columns(self, step: StepBatch) -> Mapping[str, torch.Tensor]:
        batch = step.batch
        ids, mask = (torch.cat([batch[f"prompt_{kind}"], batch[f"completion_{kind}"]], 1) for kind in ("ids", "mask"))
        width, rows = batch["completion_ids"].size(1), self._trainer.args.per_device_train_batch_size
        with torch.no_grad():
            logps, *_ = self._trainer._get_per_token_logps_and_entropies(self._model, ids, mask, width, rows)
        return {"teacher_logps": logps}


def _vocabulary(folder: Path) -> dict[str, int]:
    vocabulary: dict[str, int] = AutoTokenizer.from_pretrained(folder).get_vocab()
    return vocabulary
