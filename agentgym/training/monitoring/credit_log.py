"""Keeps the credit of every turn beside the ledger, for `agentgym credit` and the report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import override

from agentgym.storage.run_folder import RunFolder
from agentgym.training.parts import TrainingPart
from agentgym.trajectory.record import Trajectory


class CreditLog(TrainingPart):
    """Appends the credit of every step to credit.jsonl in a run folder."""

    def __init__(self, folder: RunFolder) -> None:
        self._file = folder.path / "credit.jsonl"

    @override
    def credited(
        self, step: int, trajectories: Sequence[Trajectory], credit: Sequence[np.ndarray]
    ) -> Mapping[str, float]:
        with self._file.open("a", encoding="utf-8") as file:
            for trajectory, advantages in zip(trajectories, credit, strict=True):
                if trajectory.stop_reason is None:
                    continue  # unfinished: the group did not wait for this episode
                row = {"trajectory": trajectory.id, "step": step, "advantages": [float(a) for a in advantages]}
                file.write(json.dumps(row) + "\n")
        return {}
