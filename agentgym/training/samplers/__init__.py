"""Which tasks a training step plays; `train.sampler` names one of the registered kind `samplers`."""

from __future__ import annotations

from agentgym.training.samplers.contract import (
    Sampler,
    make_random_stream,
    make_sampler,
    restore_sampler,
    save_sampler,
)
from agentgym.training.samplers.curriculum import Curriculum
from agentgym.training.samplers.shuffled import Shuffled
from agentgym.training.samplers.sources import sampler_of

__all__ = [
    "Curriculum",
    "Sampler",
    "Shuffled",
    "make_random_stream",
    "make_sampler",
    "restore_sampler",
    "sampler_of",
    "save_sampler",
]
