"""The model that `train.kl` is measured against: the one that reinforcement starts from, kept with the run.

TRL would load the reference by the name in the model's configuration, which a model made in memory does not have, and
which after a warm start names the weights before it. A model with a LoRA adapter needs no second model: TRL keeps a
frozen copy of the adapter as it is when the trainer is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from agentgym.policy.checkpoint import save_atomically
from agentgym.training.processes import Processes

REFERENCE = "reference"
"""Name of the folder that holds it: in the run's checkpoints, and in each checkpoint of a run whose reference moves."""


@contextmanager
def reference_of(
    model: Any, processing_class: Any, checkpoints: Path, checkpoint: Path | None, processes: Processes
) -> Iterator[None]:
    """A trainer of `model` that is made inside takes the saved reference; it is saved first where it is not yet.

    Args:
        model: as reinforcement starts from it.
        checkpoints: of the run.
        checkpoint: that the run goes on from, if any; it holds the reference where that had moved.
    """
    folder = checkpoints / REFERENCE
    if checkpoint is not None and (checkpoint / REFERENCE).is_dir():
        folder = checkpoint / REFERENCE
    elif not processes.share(folder.is_dir):
        processes.share(lambda: save_atomically(model, processing_class, folder))
    loaded_from = model.config._name_or_path
    model.config._name_or_path = str(folder)
    try:
        yield
    finally:
        model.config._name_or_path = loaded_from


class MovedReferenceCallback(TrainerCallback):
    """Saves the reference with each checkpoint, where it moves. It must come before CheckpointCompleteCallback.

    Attributes:
        reference: the trainer's reference model; set it once there is a trainer.
    """

    reference: Any = None

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero and args.sync_ref_model and self.reference is not None:
            self.reference.save_pretrained(Path(args.output_dir) / f"checkpoint-{state.global_step}" / REFERENCE)
