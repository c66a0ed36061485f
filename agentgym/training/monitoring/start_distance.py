"""Measure how far a policy has moved from the model that its adapter was added to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from typing_extensions import override

from agentgym.policy.adapters import has_adapter
from agentgym.training.loss.grpo_batches import own_tokens
from agentgym.training.loss.step_batch import StepBatch
from agentgym.training.parts import TrainingPart
from agentgym.training.signals.policy_pass import policy_pass

KL_FROM_START = "kl_from_start"
"""The metric: KL(policy, the model without the adapter) on the agent's own tokens, in nats per token.

It is estimated as TRL estimates `kl`: by the mean of r - 1 - log r, where r is that model's probability of a token
divided by the policy's.
"""


class StartDistance(TrainingPart):
    """Logs the distance from the model without the adapter every few steps, by one forward pass without it.

    That model is the start of the warm start, if there was one. Policies without an adapter are not measured: their
    start is not in memory. `train.kl` keeps it there, and TRL logs `kl`.

    Args:
        model: the model at the start. every: steps between two measurements.
    """

    def __init__(self, model: Any, every: int) -> None:
        self._has_adapter, self._every = has_adapter(model), every
        self._trainer: Any = None

    @override
    def attach(self, trainer: Any) -> None:
        self._trainer = trainer

    @override
    def columns(self, step: StepBatch) -> Mapping[str, torch.Tensor]:
        if self._has_adapter and self._trainer.state.global_step % self._every == 0:
            self._measure(step.batch)
        return {}

    def _measure(self, batch: Mapping[str, Any]) -> None:
        sampled, own = batch.get("sampling_per_token_logps"), own_tokens(batch)
        if sampled is None:
            return
        with self._trainer.accelerator.unwrap_model(self._trainer.model).disable_adapter():
            start = policy_pass(self._trainer, batch).logps
        ratio = (start - sampled) * own
        self._trainer.log_metrics({KL_FROM_START: float((ratio.exp() - 1 - ratio).sum() / own.sum().clamp(min=1))})
