"""Show the episodes of each step what earlier steps taught, and learn from them for later steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from agentgym import CreditError
from agentgym.storage import RunFolder
from agentgym.text import counted
from agentgym.training import TrainingRun
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest

from .store import KnowledgeStore

FILE = "knowledge.json"
"""File in a stage's folder with what the stage has learnt."""


class RunKnowledge(GathererWrapper):
    """Shows each episode what earlier steps taught about its goal, and learns from the episodes of the step.

    All episodes of a step are shown the same knowledge, so an estimator's bias class holds within a group. Only the
    policy's own episodes teach, if they were played from the start and without help. Validations and later stages are
    shown the latest knowledge, and add nothing to it; with `measured=False` measurements are shown nothing. This
    gatherer must be last in `train.gather`.

    Args:
        capacity, notes, offered, measured: as in `agentgym.methods.knowledge.KnowledgeStore`.
    Source: as in `KnowledgeStore`.
    """

    is_outermost: ClassVar[bool] = True

    @staticmethod
    def read(path: Path) -> KnowledgeStore:
        """Load what a training learnt from its file. Raises: as `KnowledgeStore.load`."""
        return KnowledgeStore.load(path)

    def __init__(
        self,
        inner: Gatherer,
        *,
        capacity: int = 2_000,
        notes: int = 4,
        offered: int = 3,
        measured: bool = True,
    ) -> None:
        super().__init__(inner)
        try:
            self.store = KnowledgeStore(capacity=capacity, notes=notes, offered=offered, measured=measured)
        except ValueError as error:
            raise CreditError(str(error)) from error

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step."""
        groups = self.inner(step.with_config(knowledge=self.store))
        self.store.learn(episode for group in groups for episode in group.unaided)
        return groups

    @override
    def rollout_changes(self) -> Mapping[str, Any]:
        return {"knowledge": self.store}

    @override
    def finish(self, run: TrainingRun) -> None:
        path = self.store.save(run.folder.path / FILE)
        line = (
            f"{run.folder.phase('train')}: later stages are shown what is known of {counted(len(self.store), 'goal')}. "
        )
        run.show(f"{line}Elsewhere, give it by --knowledge {path}.")

    @classmethod
    @override
    def changes_left_in(cls, folder: RunFolder) -> Mapping[str, Any]:
        path = folder.path / FILE
        return {"knowledge": KnowledgeStore.load(path)} if path.is_file() else {}

    @override
    def state(self) -> dict[str, Any]:
        return self.store.state()

    @override
    def load(self, state: Mapping[str, Any]) -> None:
        self.store.load_state(state)
