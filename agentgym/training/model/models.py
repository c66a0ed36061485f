"""Loads and saves the trained model, and writes the final one: all weights, or a LoRA adapter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agentgym.errors import MissingExtraError, PolicyError, RecipeError
from agentgym.policy.adapters import can_merge, has_adapter, load_into, merged, new_adapter, open_adapter
from agentgym.policy.checkpoint import (
    check_checkpoint,
    load_checkpoint,
    load_configuration,
    load_state,
    save_model,
)
from agentgym.policy.load_options import LoadOptions
from agentgym.policy.policy_section import PolicySection
from agentgym.policy.quantization import quantization_config
from agentgym.policy.role_adapters import role_adapters_of, save_each_role
from agentgym.storage.checkpoints import step_of
from agentgym.storage.run_folder import checkpoint_in
from agentgym.training.model.sharding import is_sharded
from agentgym.training.processes import Processes

FINAL = "final"
"""Name of the checkpoint at the end of a run."""
FINAL_ADAPTER = "adapter"
"""Name of the trained adapter next to the final model, or of the folder with each role's adapter."""


def check_model(section: PolicySection) -> None:
    """Check that the model of [policy] exists. A possible hub name is looked up only at loading.

    Raises: RecipeError naming the key.
    """
    source, template = section.path, section.chat_template
    if section.logit_hook is None and section.logit_hook_options:
        raise RecipeError(
            "policy.logit_hook_options is given without policy.logit_hook. Name a logit hook, or leave its options out."
        )
    if template is not None and not Path(template).is_file():
        raise RecipeError(
            f"policy.chat_template = {template!r}: this file does not exist. Give the path of a Jinja template."
        )
    if section.quantization:
        try:
            quantization_config()
        except MissingExtraError as error:
            raise RecipeError(f"policy.{error}") from error
    if source is None or (not Path(source).exists() and re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", source)):
        return
    if (checkpoint := checkpoint_in(Path(source))) is None:
        raise RecipeError(
            f"policy.path = {source!r} contains no checkpoint. Give a folder written by save_pretrained (it has a "
            "config.json), a run folder whose training or warm start has ended, or the name of a hub model."
        )
    try:
        check_checkpoint(checkpoint, section.load_options(), section.lora)
    except (PolicyError, MissingExtraError) as error:
        raise RecipeError(f"The model named in policy.path cannot be loaded. {error}") from error


def reads_images(source: str, options: LoadOptions) -> bool:
    """Return whether the configuration of policy.path has a vision part; False if it cannot be read."""
    try:
        return hasattr(load_configuration(checkpoint_in(Path(source)) or source, options), "vision_config")
    except PolicyError:  # loading the model later reports the error
        return False


def load_model(section: PolicySection, device: str, seed: int) -> tuple[Any, Any]:
    """Load the model of policy.path, with a fresh adapter if there is [policy.lora].

    Args:
        seed: the seed of the adapter.
    Returns: the model and its processing class (a tokenizer or processor).
    Raises: RecipeError if it cannot be loaded.
    """
    source = _source(section)
    try:
        model, processing_class = load_checkpoint(source, device=device, options=section.load_options())
        if (adapters := role_adapters_of(model)) is not None:
            raise PolicyError(
                f"policy.path = {source} has several adapters, one for each of {', '.join(adapters.roles)}. Such a "
                "model can be played but not trained further. Give the path of one role's adapter, which the run has "
                "saved beside it."
            )
        if section.lora is not None:
            model = new_adapter(model, section.lora, base=source, seed=seed)
    except PolicyError as error:
        raise RecipeError(f"The model named in policy.path cannot be loaded. {error}") from error
    return model, processing_class


def load_saved(section: PolicySection, folder: Path, device: str) -> tuple[Any, Any]:
    """Load a checkpoint that `save_model` wrote, to continue training. Returns: as `load_model`.

    Raises: PolicyError if the checkpoint cannot be loaded.
    """
    options = section.load_options()
    if (folder / "config.json").is_file():
        # The checkpoint has its own tokenizer and template.
        saved: dict[str, str | None] = {"revision": None, "base": None, "tokenizer": None, "chat_template": None}
        return load_checkpoint(folder, device=device, options=options.model_copy(update=saved))
    saved = {"tokenizer": str(folder), "chat_template": None}
    model, processing_class = load_checkpoint(_source(section), device=device, options=options.model_copy(update=saved))
    return open_adapter(model, folder, trainable=True), processing_class


def restore(model: Any, folder: Path) -> None:
    """Load the weights of a checkpoint from the model's own training."""
    if has_adapter(model):
        load_into(model, folder)
    else:
        model.load_state_dict(load_state(folder))


def train_from(trainer: Any, checkpoint: Path | None, *, is_last: bool = False) -> None:
    """Let a trainer train, from the start or from a checkpoint.

    A checkpoint at the last step is only loaded, because transformers would take another step.

    Args:
        trainer: a transformers trainer.
        is_last: whether the training ended early at this checkpoint, so that it is only loaded.
    """
    if checkpoint is not None and (is_last or step_of(checkpoint) >= trainer.args.max_steps > 0):
        restore(trainer.model, checkpoint)
    else:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)


def save_final(model: Any, processing_class: Any, checkpoints: Path, processes: Processes) -> Any:
    """Save the trained model ready for use, and its adapter beside it.

    An adapter is merged into the model, unless the model is quantised or each role has an adapter. In these cases the
    final checkpoint is the adapter. Each role's adapter is also saved separately beside it.

    Args:
        model: the full model in the first process, which saves it.
    Returns: the saved model.
    """
    if can_merge(model):
        processes.share(lambda: save_model(model, processing_class, checkpoints / FINAL_ADAPTER))
        model = model if is_sharded(model) else merged(model)
    processes.share(lambda: save_model(model, processing_class, checkpoints / FINAL))
    if role_adapters_of(model) is not None:
        processes.share(lambda: save_each_role(checkpoints / FINAL, checkpoints / FINAL_ADAPTER))
    return model


def _source(section: PolicySection) -> str:
    """Return the checkpoint of policy.path: an absolute folder, to which an adapter can refer, or a hub name."""
    assert section.path is not None
    folder = checkpoint_in(Path(section.path))
    return section.path if folder is None else str(folder.resolve())
