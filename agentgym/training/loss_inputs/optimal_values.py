"""A task's value under the best policy near the reference, estimated from the reference's episodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from typing_extensions import override

from agentgym.policy.contract import Policy
from agentgym.task.definition import Task
from agentgym.training.loss.step_batch import StepBatch
from agentgym.training.parts import TrainingPart
from agentgym.training.rollouts.rollouts import Rollouts


class OptimalValues(TrainingPart):
    """Estimate V* = b log mean exp(R / b) of each task on its first request, and store it in a file.

    Args:
        make_policy: makes the reference policy from the reference model.
        episodes: number of episodes per task. temperature: b, in reward units.
        file: stores the values, so that a resumed run has the same values.
    Source: A*-PO, Brantley et al. 2025, arXiv:2505.20686.
    """

    provides: ClassVar[tuple[str, ...]] = ("optimal_values",)

    def __init__(self, make_policy: Callable[[Any], Policy], *, episodes: int, temperature: float, file: Path) -> None:
        self._make_policy, self._policy = make_policy, Policy()
        self._episodes, self._temperature, self._file = episodes, temperature, file
        self._values: dict[str, float] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    @override
    def attach(self, trainer: Any) -> None:
        self._policy = self._make_policy(trainer.accelerator.unwrap_model(trainer.ref_model))

    @override
    def columns(self, step: StepBatch) -> Mapping[str, torch.Tensor]:
        values = step.share(lambda: self.of(step.tasks, step.rollouts))
        return {"optimal_values": torch.tensor(values)[step.group_of_row]}

    def of(self, tasks: Sequence[Task], rollouts: Rollouts) -> list[float]:
        """Return the value of each task; NaN if all its episodes failed. `rollouts`: plays the episodes."""
        new = list({task.id: task for task in tasks if task.id not in self._values}.values())
        if new:
            trajectories = rollouts.play(self._policy, new, label="reference", group_size=self._episodes, record=False)
            for index, task in enumerate(new):
                group = trajectories[index * self._episodes : (index + 1) * self._episodes]
                returns = np.array([episode.return_from() for episode in group if episode.valid])
                self._values[task.id] = soft_maximum(returns, self._temperature)
            partial = self._file.with_suffix(".partial")
            partial.write_text(json.dumps(self._values), encoding="utf-8")
            partial.replace(self._file)
        return [self._values[task.id] for task in tasks]


def soft_maximum(returns: np.ndarray, temperature: float) -> float:
    """Return b log mean exp(R / b), between the mean (b large) and the maximum (b small); NaN without returns."""
    if not len(returns):
        return float("nan")
    highest = float(returns.max())
    return highest + temperature * float(np.log(np.mean(np.exp((returns - highest) / temperature))))
