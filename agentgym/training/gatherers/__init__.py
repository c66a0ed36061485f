"""Gathers the groups of a training step; `train.gather` names wrappers of the registered kind `gatherers`."""

from agentgym.moved import moved_names
from agentgym.training.gatherers.contract import Gatherer, GathererWrapper, make_gatherer, play_groups
from agentgym.training.gatherers.groups import GatheredGroup
from agentgym.training.gatherers.step import StepRequest

__all__ = [
    "GatheredGroup",
    "Gatherer",
    "GathererWrapper",
    "StepRequest",
    "make_gatherer",
    "play_groups",
]

__getattr__ = moved_names(__name__)
