"""The value of a task under the best policy near the reference, from episodes that the reference plays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from agentgym.policy.contract import Policy
from agentgym.task import Task
from agentgym.training.rollouts.rollouts import Rollouts


class OptimalValues:
    """V* = b log mean exp(R / b) of each task, estimated when it is first asked for and kept in a file.

    Args:
        policy: the reference.
        episodes: of each task. temperature: b, in reward units.
        file: where the values are kept, so that a resumed run has the same.
    Source: A*-PO, Brantley et al. 2025, arXiv:2505.20686.
    """

    def __init__(self, policy: Policy, rollouts: Rollouts, *, episodes: int, temperature: float, file: Path) -> None:
        self._policy, self._rollouts = policy, rollouts
        self._episodes, self._temperature, self._file = episodes, temperature, file
        self._values: dict[str, float] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    def of(self, tasks: Sequence[Task]) -> list[float]:
        """The value of each task; NaN where all of its episodes failed."""
        new = list({task.id: task for task in tasks if task.id not in self._values}.values())
        if new:
            trajectories = self._rollouts.play(
                self._policy, new, label="reference", group_size=self._episodes, record=False
            )
            for index, task in enumerate(new):
                group = trajectories[index * self._episodes : (index + 1) * self._episodes]
                returns = np.array([episode.return_from() for episode in group if episode.valid])
                self._values[task.id] = soft_maximum(returns, self._temperature)
            partial = self._file.with_suffix(".partial")
            partial.write_text(json.dumps(self._values), encoding="utf-8")
            partial.replace(self._file)
        return [self._values[task.id] for task in tasks]


def soft_maximum(returns: np.ndarray, temperature: float) -> float:
    """b log mean exp(R / b): between the mean (b large) and the maximum (b small) of the returns; NaN of none."""
    if not len(returns):
        return float("nan")
    highest = float(returns.max())
    return highest + temperature * float(np.log(np.mean(np.exp((returns - highest) / temperature))))
