"""TrainingPart: a participant in reinforcement in addition to the trainer, such as a gatherer, a critic or a teacher.

The stage `reinforce` makes the recipe's parts and calls their methods in this order:

1. Before a run starts, `excludes` and `requires` check the part against the rest of the recipe.
2. `training_tasks` chooses the tasks of the stage, and `rollout_changes` changes how their episodes are played.
3. `prepare` is called before the trainer is made. If the stage resumes from a checkpoint, `restore` follows.
4. The trainer is made with all `trainer_options` and `callbacks`; `attach` then gets the trainer.
5. In each step, `update` and `credited` follow the credit, and `columns` and `other_rows` add to the batch before the
   loss. Each of the `passes` over the batch begins with `change_pass`; the first one calls `observe` and `end_batch`.
   `measurement_changes` changes how a validation is played, and `validated` follows the validation. `save` writes into
   each checkpoint.
6. `finish` is called after a successful training, `close` also after a failed one.
7. `changes_left_in` changes how later stages play.

A part overrides the methods that it needs; the defaults do nothing. A package registers its own parts under the kind
`training_parts`, and a recipe names them: `[train.parts.NAME]` holds the options.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from agentgym.credit.named_parts import load_part
from agentgym.evaluation.record import manifest_of
from agentgym.policy.contract import Policy, Renderer
from agentgym.rollout.rollouts import Rollouts
from agentgym.storage.run_folder import RunFolder
from agentgym.task.definition import Task
from agentgym.task.task_set import TaskSet
from agentgym.training.fit import PlannedPart, is_implied
from agentgym.training.recipe.train_section import TrainSection
from agentgym.trajectory.record import Trajectory

if TYPE_CHECKING:
    import numpy as np
    import torch

    from agentgym.training.loss.grpo_batches import OtherRows
    from agentgym.training.loss.step_batch import BatchPass, StepBatch
    from agentgym.training.objectives import TokenBatch


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """The reinforcement run that the parts belong to.

    Attributes:
        train: the section of the recipe.
        seed: the seed of the run. device: torch's name of the training device.
        folder: the folder of the stage's results.
        checkpoint: the checkpoint that the stage resumes from; None for a fresh start.
        task_set: the training tasks. rollouts: plays their episodes.
        policy: the trained policy. tokenizer, renderer: those of the policy.
        show: prints a line.
        make_policy: makes a policy that samples from another model, such as the reference, with the recipe's options.
    """

    train: TrainSection
    seed: int
    device: str
    folder: RunFolder
    checkpoint: Path | None
    task_set: TaskSet
    rollouts: Rollouts
    policy: Policy
    tokenizer: Any
    renderer: Renderer
    show: Callable[[str], None]
    make_policy: Callable[[Any], Policy]


class TrainingPart(PlannedPart):
    """Base of training parts: override what the part needs. The module's docstring says when each method is called.

    Attributes:
        label: the part's name in the recipe, for messages.
        provides: names of the inputs that the part gives to losses, as in `LossRequirements.from_parts`. A part that
            provides inputs is made only if the objective or a term needs one of them.
        is_implied: whether a loss that needs the part gets it with its defaults if the recipe does not name it.
    """

    label: str = ""
    provides: ClassVar[tuple[str, ...]] = ()
    is_implied: ClassVar[bool] = False

    @property
    def passes(self) -> int:
        """Return the number of passes that the part needs over a step's batch, each of `train.iterations` optimiser
        steps.
        """
        return 1

    @property
    def reads_state_keys(self) -> bool:
        """Return whether the part reads the environment's state keys, so that turns must record them."""
        return False

    def further_models(self) -> Mapping[str, str]:
        """Return, for the memory plan, the checkpoints that the part loads besides the policy, by description."""
        return {}

    def training_tasks(self, task_set: TaskSet) -> TaskSet:
        """Return the task set that the stage trains on, made from the run's task set."""
        return task_set

    def adapts_by(self) -> str:
        """Return a description of the judge, if the part trains on tasks without their truth; "" if the truth judges.

        The part gives such tasks an origin, whose `parent` names the task of the run. Every later evaluation states the
        adaptation, and training on held-out tasks counts as a use of these tasks.
        """
        return ""

    def rollout_changes(self) -> Mapping[str, Any]:
        """Return changes of the rollout config for all episodes of the stage."""
        return {}

    def prepare(self, run: TrainingRun) -> None:
        """Load what the part needs. Raises: RecipeError if loading fails."""

    def restore(self, folder: Path) -> None:
        """Restore the part's state from a checkpoint. An older checkpoint without this state changes nothing."""

    def trainer_options(self) -> Mapping[str, Any]:
        """Return keyword arguments for the trainer."""
        return {}

    def callbacks(self) -> Sequence[Any]:
        """Return transformers TrainerCallbacks."""
        return ()

    def attach(self, trainer: Any) -> None:
        """Receive the completed trainer."""

    def columns(self, step: StepBatch) -> Mapping[str, torch.Tensor]:
        """Return further columns of a step's batch, (B,) or (B, T); losses read them from `TokenBatch.inputs`."""
        return {}

    def other_rows(self, step: StepBatch) -> Mapping[str, OtherRows]:
        """Return, by EpisodeKind, episodes that the policy did not play and on which losses are computed."""
        return {}

    def change_pass(self, update: BatchPass) -> BatchPass:
        """Return a pass over the batch with the part's changes. Called before the loss of each pass."""
        return update

    def observe(self, tokens: TokenBatch) -> None:
        """Receive some of the policy's episodes, with their scores, in the first training pass over a batch."""

    def end_batch(self, gather: Callable[[Any], list[Any]]) -> None:
        """Take note that the first training pass over a batch has ended.

        Args:
            gather: returns the values of all processes, in order. All processes must call it together.
        """

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Learn from the episodes of a step. Called in the first process. Returns: metrics to log."""
        return {}

    def credited(
        self, step: int, trajectories: Sequence[Trajectory], credit: Sequence[np.ndarray]
    ) -> Mapping[str, float]:
        """Receive the credit of every batch. Called in the first process. Returns: metrics to log.

        Args:
            step: number of optimiser steps done before this batch.
            trajectories, credit: the batch's trajectories, and one array of advantages by turn for each.
        """
        return {}

    def validated(self, metrics: Mapping[str, float]) -> None:
        """Receive the metrics of a validation of the current weights. Called in every process."""

    def measurement_changes(self) -> Mapping[str, Any]:
        """Return changes of the rollout config for measuring the policy at this point."""
        return {}

    def save(self, folder: Path) -> None:
        """Write the state into a checkpoint's folder. Called in the first process."""

    def finish(self, run: TrainingRun) -> None:
        """Save what later stages need into the run's folder. Called in the first process."""

    def close(self) -> None:
        """Close the resources that `prepare` opened."""

    @classmethod
    def changes_left_in(cls, folder: RunFolder) -> Mapping[str, Any]:
        """Return the changes of the rollout config that the stage with this folder left for later stages."""
        return {}


def make_parts(named: Mapping[str, Mapping[str, Any]], needed: Collection[str]) -> list[TrainingPart]:
    """Make the parts of [train.parts] and those that losses imply. A part that only provides inputs which no loss needs
    is left out.

    Args:
        named: the options of each part, by registered name.
        needed: names of the inputs that the objective and the terms need, as in `provides`.
    Raises: UnknownNameError; CreditError for unknown options.
    """
    parts = []
    implied: dict[str, Mapping[str, Any]] = {name: {} for name in sorted(needed) if is_implied(name)}
    for name, options in (implied | dict(named)).items():
        part: TrainingPart = load_part("training_parts", name, options)()
        part.label = f"[train.parts.{name}]"
        if not part.provides or set(part.provides) & set(needed):
            parts.append(part)
    return parts


@dataclass(frozen=True, slots=True)
class Adaptation:
    """Training on tasks of a split without their truth.

    Attributes:
        split, tasks: the run's own tasks, from which the trained tasks are made.
        by: a description of the judge that replaces the truth.
    """

    split: str
    tasks: Sequence[Task]
    by: str

    @classmethod
    def of(cls, part: TrainingPart, task_set: TaskSet) -> Adaptation | None:
        """Return the adaptation by a part; None for most parts. `task_set`: the task set of the run."""
        if not (by := part.adapts_by()):
            return None
        parents = {task.origin.parent for task in part.training_tasks(task_set)["train"] if task.origin is not None}
        tasks = {split: [task for task in own if task.id in parents] for split, own in task_set.items()}
        split = max(tasks, key=lambda name: len(tasks[name]))
        return cls(split, tasks[split], by)

    def __str__(self) -> str:
        """Return the text about the adaptation in every later evaluation and in the report."""
        return (
            f"adapted to {len(self.tasks)} {self.split} tasks (manifest {manifest_of(self.tasks)}) without their "
            f"truth, by {self.by}"
        )
