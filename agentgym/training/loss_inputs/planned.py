"""The teacher and the experts of a recipe, and whether the losses that need them can have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoTokenizer
from typing_extensions import override

from agentgym.errors import TaskError
from agentgym.storage import checkpoint_in
from agentgym.training.demonstrate import script_of
from agentgym.training.fit import PlannedPart, TrainingPlan
from agentgym.training.objectives.planned import PlannedLoss
from agentgym.training.recipe.train_section import TeacherSection, TrainSection


def planned_inputs(losses: Sequence[PlannedLoss], train: TrainSection) -> list[PlannedPart]:
    """Return what the losses need and the recipe names: each input once for each loss that needs it."""
    parts: list[PlannedPart] = []
    for loss in losses:
        if "experts" in loss.needs.rows and train.experts is not None:
            parts.append(PlannedExperts(loss.key))
        if loss.needs.teacher and train.teacher is not None:
            parts.append(PlannedTeacher(loss.key, train.teacher))
    return parts


@dataclass(frozen=True, slots=True)
class PlannedExperts(PlannedPart):
    """The scripted player of [train.experts]. `loss`: the key of the loss that needs its episodes."""

    loss: str

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        if (section := plan.train.experts) is None or section.episodes:
            return
        try:
            script_of(plan.task_set, section.scripted_player)
        except TaskError as error:
            yield f"{self.loss} needs episodes of an expert. {error}"


@dataclass(frozen=True, slots=True)
class PlannedTeacher(PlannedPart):
    """The model of [train.teacher]. What may be a hub model is looked for when it is loaded.

    Attributes:
        loss: the key of the loss that needs its log-probabilities.
    """

    loss: str
    section: TeacherSection

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        path, policy = self.section.path, plan.policy
        is_local = Path(path).exists() or path.startswith((".", "/", "~"))
        folder = checkpoint_in(Path(path))
        if is_local and folder is None:
            yield f"{self.loss} needs a teacher, and train.teacher.path = {path!r} holds no checkpoint."
        own = checkpoint_in(Path(policy.path)) if policy.path and not policy.tokenizer else None
        if folder is not None and own is not None and _vocabulary(folder) != _vocabulary(own):
            yield (
                f"{self.loss} needs a teacher with the vocabulary of policy.path = {policy.path!r}, and "
                f"train.teacher.path = {path!r} has another."
            )


def _vocabulary(folder: Path) -> dict[str, int]:
    vocabulary: dict[str, int] = AutoTokenizer.from_pretrained(folder).get_vocab()
    return vocabulary
