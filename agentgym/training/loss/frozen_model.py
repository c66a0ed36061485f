"""A second model that scores the tokens of a step, such as a teacher; it is never trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer
from trl.trainer.utils import add_fused_lm_head, disable_dropout_in_model

from agentgym.errors import PolicyError, RecipeError
from agentgym.policy.checkpoint import load_checkpoint, tokenizer_of
from agentgym.policy.policy_section import PolicySection
from agentgym.storage.run_folder import checkpoint_in
from agentgym.training.loss.labelled_head import project_labelled_only
from agentgym.training.loss.step_batch import StepBatch


class FrozenModel:
    """A model with the policy's vocabulary that scores the tokens of a step, but is not trained.

    Args:
        path: a local checkpoint, a run folder, or a hub name, which is looked up only at loading.
        key: the key of the path in the recipe, for messages.
    """

    def __init__(self, path: str, key: str) -> None:
        self._path, self._key = path, key
        self._model: Any = None
        self._trainer: Any = None

    def objection(self, policy: PolicySection) -> str:
        """Return why the model cannot score a policy's tokens, as far as this is known before loading; "" if it can."""
        path = self._path
        is_local = Path(path).exists() or path.startswith((".", "/", "~"))
        folder = checkpoint_in(Path(path))
        if is_local and folder is None:
            return f"{self._key} = {path!r} holds no checkpoint."
        own = checkpoint_in(Path(policy.path)) if policy.path and not policy.tokenizer else None
        if folder is not None and own is not None and _vocabulary(folder) != _vocabulary(own):
            return f"{self._key} = {path!r} has another vocabulary than policy.path = {policy.path!r}."
        return ""

    def load(self, tokenizer: Any, device: str) -> None:
        """Load the model. Raises: RecipeError if it cannot be loaded, or has another vocabulary than `tokenizer`."""
        folder = checkpoint_in(Path(self._path))
        try:
            model, processing_class = load_checkpoint(self._path if folder is None else str(folder), device=device)
        except PolicyError as error:
            raise RecipeError(f"The model named in {self._key} cannot be loaded. {error}") from error
        if tokenizer_of(processing_class).get_vocab() != tokenizer.get_vocab():
            raise RecipeError(
                f"{self._key} = {self._path!r}: this model's vocabulary differs from the policy's, so it cannot score "
                "the policy's tokens. Choose a model with the same tokenizer."
            )
        self._model = model.eval().requires_grad_(False)

    def attach(self, trainer: Any) -> None:
        """Let the loaded model compute log-probabilities as the trainer's own model does."""
        disable_dropout_in_model(self._model)
        head_in_fp32 = trainer.args.cast_lm_head_to_fp32
        add_fused_lm_head(self._model, temperature=trainer.temperature, cast_lm_head_to_fp32=head_in_fp32)
        project_labelled_only(self._model, trainer.token_masks)
        self._model = trainer.accelerator.prepare_model(self._model, evaluation_mode=True)
        self._trainer = trainer

    def logps(self, step: StepBatch) -> torch.Tensor:
        """Return the model's log-probabilities of a step's tokens, (B, T), in nats."""
        batch = step.batch
        ids, mask = (torch.cat([batch[f"prompt_{kind}"], batch[f"completion_{kind}"]], 1) for kind in ("ids", "mask"))
        width, rows = batch["completion_ids"].size(1), self._trainer.args.per_device_train_batch_size
        with torch.no_grad():
            logps, *_ = self._trainer._get_per_token_logps_and_entropies(self._model, ids, mask, width, rows)
        scores: torch.Tensor = logps
        return scores


def _vocabulary(folder: Path) -> dict[str, int]:
    vocabulary: dict[str, int] = AutoTokenizer.from_pretrained(folder).get_vocab()
    return vocabulary
