"""A*-PO: regress the log-ratio to the reference onto the advantage of the best policy.

The training part `optimal_values` estimates the value of a task under the best policy near the reference, from episodes
of the reference; the objective `apo` reads it.

Source: Brantley et al. 2025, arXiv:2505.20686; b = 0.5, beta = 1e-3 and 8 episodes as in the authors' code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from typing_extensions import override

from agentgym import CreditError, Policy, Task
from agentgym.options import Count, Positive
from agentgym.training import Rollouts, StepBatch, TrainingPart, TrainingPlan, TrainingRun
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss

VALUES = "optimal_values"
FILE = "optimal_values.json"
"""The file in the run's checkpoints that stores the values, so that a resumed run has the same values."""


@define_loss(LossRequirements(advantages=False, reference=True, parts=(VALUES,)))
def apo(tokens: TokenBatch, *, beta: Positive = 1e-3) -> torch.Tensor:
    """(beta x log pi/pi_ref of the whole episode - (R - V*))^2, R its return and V* the optimal value of its task.

    V* = b log mean exp(R / b) over episodes that the reference plays before its task is trained on;
    [train.parts.optimal_values] sets their number, `episodes`, and b, `temperature`. The best policy near the reference
    has loss 0. An episode that the infrastructure failed has loss 0. No comparison is made, so groups of one suffice
    (`train.group_size = 1`, as in the paper).
    """
    if VALUES not in tokens.inputs:
        raise CreditError(
            "The objective apo needs optimal_values, which only a run with a recipe computes. Train it by agentgym "
            "train."
        )
    log_ratio = -tokens.reference_gaps().sum(1)
    target = tokens.returns - tokens.inputs[VALUES]
    valid = ~target.isnan()
    return (beta * log_ratio - target.nan_to_num(0.0)) ** 2 * valid


class OptimalValues(TrainingPart):
    """Estimates V* = b log mean exp(R / b) of each task on its first request, and stores it in a file.

    Args:
        episodes: number of episodes per task that the reference plays. temperature: b, in reward units.
    """

    provides: ClassVar[tuple[str, ...]] = (VALUES,)
    is_implied: ClassVar[bool] = True

    def __init__(self, *, episodes: Count = 8, temperature: Positive = 0.5) -> None:
        self._episodes, self._temperature = episodes, temperature
        self._make_policy: Callable[[Any], Policy] | None = None
        self._policy = Policy()
        self._file = Path(FILE)
        self._values: dict[str, float] = {}

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        yield from super().conflicts(plan)
        if plan.policy.lora or plan.vllm is not None:
            yield (
                f"{self.label} plays episodes with the reference model, which works neither with [policy.lora] nor "
                "with [vllm]."
            )
        if (kind := plan.train.reference.moves_as) != "fixed":
            yield f"{self.label} needs a reference that stays, not one of the kind {kind!r}."

    @override
    def prepare(self, run: TrainingRun) -> None:
        self._make_policy = run.make_policy
        self.read_values(run.folder.checkpoints / FILE)

    def read_values(self, file: Path) -> None:
        """Read the values that an interrupted run has stored in a file, and store further values there."""
        self._file = file
        self._values = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    @override
    def attach(self, trainer: Any) -> None:
        assert self._make_policy is not None  # set by `prepare`
        self._policy = self._make_policy(trainer.accelerator.unwrap_model(trainer.ref_model))

    @override
    def columns(self, step: StepBatch) -> Mapping[str, torch.Tensor]:
        values = step.share(lambda: self.estimate(step.tasks, step.rollouts))
        return {VALUES: torch.tensor(values)[step.group_of_row]}

    def estimate(self, tasks: Sequence[Task], rollouts: Rollouts) -> list[float]:
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
