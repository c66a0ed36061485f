"""The reference model, and the episodes of an expert, as training parts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback
from typing_extensions import override

from agentgym.policy.adapters import has_adapter
from agentgym.policy.checkpoint import save_atomically
from agentgym.training.experts import ExpertEpisodes, Experts, ScriptedExperts, stored_experts
from agentgym.training.model.sharding import full_state, is_sharded
from agentgym.training.objectives.contract import LossRequirements, make_objective, make_terms, needs_of
from agentgym.training.parts import TrainingPart, TrainingRun
from agentgym.training.processes import Processes
from agentgym.training.recipe.train_section import ExpertsSection, TrainSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.selection import EXPERTS_MANIFEST, expert_episodes

REFERENCE = "reference"
"""Name of the reference's folder: in the run's checkpoints, and in each checkpoint if the reference moves."""

BEST = "best.json"
"""Name of the file in the reference's folder with the success of a reference of the kind "best"."""


@contextmanager
def reference_of(
    model: Any, processing_class: Any, checkpoints: Path, checkpoint: Path | None, processes: Processes
) -> Iterator[None]:
    """Make a trainer that is created inside the block load the saved reference model. If none is saved yet, `model` is
    saved first.

    Args:
        model: the model at the start of the reinforcement.
        checkpoints: the run's folder of checkpoints.
        checkpoint: the checkpoint from which the run resumes, if any; it contains a reference that had moved.
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


class Reference(TrainingPart, TrainerCallback):
    """The reference model of [train.reference], for the KL term and for comparisons.

    TRL moves a reference that follows the steps; this part moves one that follows validation, and saves a moving
    reference with each checkpoint. As a callback, it must come before CheckpointCompleteCallback.

    Args:
        model, processing_class: the model at the start of the reinforcement, and its tokenizer or processor.
    """

    def __init__(self, section: TrainSection, model: Any, processing_class: Any, processes: Processes) -> None:
        self._train, self._section, self._processes = section, section.reference, processes
        self._model, self._processing_class = model, processing_class
        self._making = ExitStack()  # until the trainer has taken the saved reference
        self._checkpoint: Path | None = None
        self._trainer: Any = None
        self._best: float | None = None  # success of the best validation so far

    @override
    def prepare(self, run: TrainingRun) -> None:
        self._checkpoint = run.checkpoint
        if self._train.keeps_reference and not has_adapter(self._model):
            start = self._model, self._processing_class, run.folder.checkpoints, run.checkpoint, self._processes
            self._making.enter_context(reference_of(*start))

    @override
    def callbacks(self) -> Sequence[Any]:
        return [self]

    @override
    def attach(self, trainer: Any) -> None:
        self._making.close()
        self._trainer = trainer
        if self._checkpoint is not None and (file := self._checkpoint / REFERENCE / BEST).is_file():
            self._best = json.loads(file.read_text(encoding="utf-8"))["success"]

    @override
    def validated(self, metrics: Mapping[str, float]) -> None:
        """Move a reference of the kind "best" to the current weights if success exceeds every earlier validation.

        The first validation, before the first step, measures the reference itself and only sets the baseline.
        """
        success = metrics.get("success", 0.0)
        if self._section.moves_as == "best" and (self._best is None or success > self._best):
            if self._best is not None:
                self._copy_weights()
            self._best = success

    def on_step_end(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        if self._section.reset_optimiser and state.global_step % self._section.reset_every == 0:
            optimizer.state.clear()

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        model = self._trainer.ref_model if self._trainer is not None else None
        if model is None or not (args.sync_ref_model or self._section.moves_as == "best"):
            return
        options = {"state_dict": full_state(model)} if is_sharded(model) else {}
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}" / REFERENCE
        self._trainer.accelerator.unwrap_model(model).save_pretrained(folder, **options)
        if self._best is not None:
            (folder / BEST).write_text(json.dumps({"success": self._best}), encoding="utf-8")

    @override
    def close(self) -> None:
        self._making.close()

    def _copy_weights(self) -> None:
        unwrap = self._trainer.accelerator.unwrap_model
        target, source = unwrap(self._trainer.ref_model), unwrap(self._trainer.model)
        with torch.no_grad():
            for ours, theirs in zip(target.parameters(), source.parameters(), strict=True):
                ours.copy_(theirs)


def loss_requirements(section: TrainSection) -> list[LossRequirements]:
    """Return the requirements of the objective and each term."""
    terms = [term.row_losses for term in make_terms(section.terms)]
    return [needs_of(losses) for losses in (make_objective(section.objective), *terms)]


def input_parts(context: RunContext, learner: Learner) -> list[TrainingPart]:
    """Make the built-in parts that the objective or a term needs.

    Raises: RecipeError if the stored experts solved nothing.
    """
    section = context.recipe.train
    needed = {name for needs in loss_requirements(section) for name in needs.from_parts}
    if section.experts is None or not needed & set(ExpertEpisodes.provides):
        return []
    return [ExpertEpisodes(_experts(context, learner, section.experts))]


def _experts(context: RunContext, learner: Learner, section: ExpertsSection) -> Experts:
    if not section.episodes:
        return ScriptedExperts(context.task_set, section.scripted_player, learner.renderer)
    choose = partial(expert_episodes, context.stage, context.task_set["train"])
    chosen = context.stored_episodes.choose(learner.renderer, section, choose, file=EXPERTS_MANIFEST)
    return stored_experts(list(chosen.episodes.values()))
