"""How the groups of a training step come about; `train.gather` names wrappers of the registered kind `gatherers`."""

from agentgym.training.gatherers.contract import (
    Gatherer,
    ReadsTasks,
    Selection,
    Stateful,
    WrappedGatherer,
    make_gatherer,
    play_groups,
)
from agentgym.training.gatherers.groups import GatheredGroup, gather_metrics, in_groups, untrained
from agentgym.training.gatherers.step import StepRequest

__all__ = [
    "GatheredGroup",
    "Gatherer",
    "ReadsTasks",
    "Selection",
    "Stateful",
    "StepRequest",
    "WrappedGatherer",
    "gather_metrics",
    "in_groups",
    "make_gatherer",
    "play_groups",
    "untrained",
]
