"""The training part `snr_learning_rate`: it scales a step's learning rate by SNR / (1 + SNR), with SNR the
signal-to-noise ratio of the groups' gradients.

Source: the idea is OBLR-PO's, arXiv:2511.23310; this form of the factor is our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from transformers import TrainerCallback
from typing_extensions import override

from agentgym.training import TrainingPart, TrainingPlan


class GroupGradients:
    """Measure the gradient that each group in turn adds to the accumulated gradients of some parameters.

    Only the norm of each group's gradient and a copy of the latest accumulated gradients are kept.
    """

    def __init__(self) -> None:
        self._before: list[torch.Tensor] = []
        self._squares: list[float] = []  # squared norm of each group's gradient

    def start(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Save the current gradients. Call it before the first group of a step."""
        self._squares = []
        self._before = [_gradient_of(parameter) for parameter in parameters]

    def note(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Measure the change of the gradients since the last call, as one group's gradient."""
        now = [_gradient_of(parameter) for parameter in parameters]
        self._squares.append(sum(float((a - b).square().sum()) for a, b in zip(now, self._before, strict=True)))
        self._before = now

    def ratio(self) -> float:
        """Return |mean g|^2 / var g over the groups since `start`, var with ddof 0; infinite if all g are equal.

        This assumes that gradients were 0 before the first group, as at the start of a step. Without groups, or if all
        gradients are 0, the ratio is 0.
        """
        count = len(self._squares)
        if not count:
            return 0.0
        mean_square = sum(float(total.square().sum()) for total in self._before) / count**2
        variance = max(sum(self._squares) / count - mean_square, 0.0)
        if mean_square == 0:
            return 0.0
        return mean_square / variance if variance > 1e-12 * mean_square else float("inf")


class SignalToNoiseCallback(TrainerCallback):
    """Scale a step's learning rate by SNR / (1 + SNR) of its groups, and restore the rate afterwards.

    With one group, noise cannot be measured, and the rate is not changed.

    Attributes:
        trainer: the trainer whose `group_gradients` are read; set after the trainer is made.
    """

    trainer: Any = None

    def __init__(self) -> None:
        self._rates: list[float] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        ratio = self.trainer.group_gradients.ratio()
        factor = 1.0 if ratio == float("inf") else ratio / (1.0 + ratio)
        self._rates = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] *= factor
        self.trainer.log_metrics({"snr": min(ratio, 1e9), "learning_rate_factor": factor})

    def on_optimizer_step(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        for group, rate in zip(optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate


class SnrLearningRate(TrainingPart):
    """Scales a step's learning rate by SNR / (1 + SNR), SNR being the signal-to-noise ratio of the groups'
    gradients.
    """

    def __init__(self) -> None:
        self._callback = SignalToNoiseCallback()

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        yield from super().conflicts(plan)
        begins = f"{self.label}: the ratio"
        if plan.process_count > 1:
            yield f"{begins} is measured in one process, and this run has several. Leave one of them out."
        if set(plan.trained_rows) - {"policy"}:
            yield (
                f"{begins} counts the policy's own groups, and a loss of this recipe trains on other episodes. Leave "
                "one of them out."
            )
        if plan.train.trl.get("gradient_accumulation_steps", 1) != 1:
            yield (
                f"{begins} is of one batch, and [train.trl] gradient_accumulation_steps joins several. Leave one of "
                "them out."
            )

    @override
    def trainer_options(self) -> Mapping[str, Any]:
        return {"group_gradients": GroupGradients()}

    @override
    def callbacks(self) -> Sequence[Any]:
        return [self._callback]

    @override
    def attach(self, trainer: Any) -> None:
        self._callback.trainer = trainer


def _gradient_of(parameter: torch.nn.Parameter) -> torch.Tensor:
    gradient = parameter.grad
    return torch.zeros_like(parameter) if gradient is None else gradient.detach().clone()
