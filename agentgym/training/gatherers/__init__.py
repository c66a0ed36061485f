"""How the groups of a training step come about; `train.gather` names wrappers of the registered kind `gatherers`."""

from agentgym.training.gatherers.contract import (
    GatheredGroup,
    Gatherer,
    ReadsTasks,
    Selection,
    Stateful,
    StepRequest,
    WrappedGatherer,
    gather_metrics,
    in_groups,
    make_gatherer,
    play_groups,
    untrained,
)

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
