"""Which tasks a training step plays; `train.sampler` names one of the registered kind `samplers`."""

from __future__ import annotations

from agentgym.training.samplers.contract import Sampler, make_sampler, restore_sampler, save_sampler

__all__ = ["Sampler", "make_sampler", "restore_sampler", "save_sampler"]
