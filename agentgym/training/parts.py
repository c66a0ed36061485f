"""TrainingPart: what takes part in a reinforcement beside the trainer, such as a gatherer, a critic or a teacher.

The stage `reinforce` makes the parts of a recipe and asks all of them at the same points, in this order:

1. Before a run starts, `excludes` and `requires` say whether the part fits the rest of the recipe.
2. `rollout_changes` says how the episodes of the stage are played.
3. `prepare` is called before there is a trainer. `restore` follows where the stage goes on from a checkpoint.
4. The trainer is made with all `trainer_options` and `callbacks`; then `attach` is called with it.
5. In each step, `columns` and `other_rows` add to the batch before the loss, and `update` follows the credit.
   `measurement_changes` says how a validation is played, and `validated` follows it. `save` writes into each
   checkpoint.
6. `finish` is called once the training has ended, `close` also where it has failed.
7. `changes_left_in` says how later stages play.

A part overrides what it needs; everything else does nothing. A package registers parts of its own under the kind
`training_parts`, and a recipe names them: `[train.parts.NAME]` holds the options.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from agentgym.credit.named_parts import load_part
from agentgym.policy.contract import Policy, Renderer
from agentgym.storage.run_folder import RunFolder
from agentgym.task import TaskSet
from agentgym.training.fit import PlannedPart
from agentgym.training.recipe.train_section import TrainSection
from agentgym.training.rollouts.rollouts import Rollouts
from agentgym.trajectory import Trajectory

if TYPE_CHECKING:
    import torch

    from agentgym.training.loss.grpo_batches import OtherRows
    from agentgym.training.loss.step_batch import StepBatch


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """The reinforcement that parts take part in.

    Attributes:
        train: the section of the recipe.
        seed: the seed of the run. device: torch's name of the device that is trained on.
        folder: where the stage leaves its results.
        checkpoint: that the stage goes on from; None at the start.
        task_set: the tasks that are trained on. rollouts: plays their episodes.
        policy: that is trained. tokenizer, renderer: of it.
        show: prints a line.
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


class TrainingPart(PlannedPart):
    """Base of the parts: subclass it, and override what the part needs. The module says when each method is called.

    Attributes:
        label: how the recipe names the part, for messages.
        provides: names of what it gives to losses, as `LossRequirements.inputs` has them. Such a part is made only
            where the objective or a term needs it.
    """

    label: str = ""
    provides: ClassVar[tuple[str, ...]] = ()

    def rollout_changes(self) -> Mapping[str, Any]:
        """Return the options of the rollout config that differ in all episodes of the stage."""
        return {}

    def prepare(self, run: TrainingRun) -> None:
        """Load what the part needs. Raises: RecipeError for what cannot be loaded."""

    def restore(self, folder: Path) -> None:
        """Continue as at a checkpoint. One that the part has not saved in, such as an older one, changes nothing."""

    def trainer_options(self) -> Mapping[str, Any]:
        """Return keyword arguments for the trainer."""
        return {}

    def callbacks(self) -> Sequence[Any]:
        """Return TrainerCallbacks of transformers."""
        return ()

    def attach(self, trainer: Any) -> None:
        """Take note of the trainer, which is complete now."""

    def columns(self, step: StepBatch) -> Mapping[str, torch.Tensor]:
        """Return further columns of the batch of a step, (B,) or (B, T); losses read them as `TokenBatch.inputs`."""
        return {}

    def other_rows(self, step: StepBatch) -> Mapping[str, OtherRows]:
        """Return episodes that are not the policy's and that losses are computed on, by their EpisodeKind."""
        return {}

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Learn from the episodes of a step, in the first process. Returns: metrics to log."""
        return {}

    def validated(self, metrics: Mapping[str, float]) -> None:
        """Take note of a validation of the current weights, in every process."""

    def measurement_changes(self) -> Mapping[str, Any]:
        """Return the options of the rollout config that differ where the policy is measured now."""
        return {}

    def save(self, folder: Path) -> None:
        """Write the state into the folder of a checkpoint, in the first process."""

    def finish(self, run: TrainingRun) -> None:
        """Leave what later stages need in the folder of the run, in the first process."""

    def close(self) -> None:
        """Close what `prepare` has opened."""

    @classmethod
    def changes_left_in(cls, folder: RunFolder) -> Mapping[str, Any]:
        """Return the options of the rollout config that a stage with this folder has left for later stages."""
        return {}


def make_parts(named: Mapping[str, Mapping[str, Any]], needed: Collection[str]) -> list[TrainingPart]:
    """Make the parts of [train.parts] that take part: all but those that provide nothing which is needed.

    Args:
        named: the options of each part by registered name.
        needed: what the objective and the terms need, by the names in `provides`.
    Raises: UnknownNameError; CreditError for options that a part does not take.
    """
    parts = []
    for name, options in named.items():
        part: TrainingPart = load_part("training_parts", name, options)()
        part.label = f"[train.parts.{name}]"
        if not part.provides or set(part.provides) & set(needed):
            parts.append(part)
    return parts
