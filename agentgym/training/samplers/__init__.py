"""Choose the tasks of a training step; `train.sampler` names one of the registered kind `samplers`."""

from __future__ import annotations

from agentgym.moved import moved_names
from agentgym.training.samplers.contract import Sampler, make_random_stream
from agentgym.training.samplers.sources import Shuffled

__all__ = [
    "Sampler",
    "Shuffled",
    "make_random_stream",
]


__getattr__ = moved_names(__name__)
