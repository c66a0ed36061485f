"""Gather the groups of a training step; `train.gather` names wrappers of the registered kind `gatherers`.

contract.py: gatherers and wrappers. step.py: what a step requests. groups.py: what a gatherer returns.
"""

from agentgym.moved import moved_names
from agentgym.training.gatherers.contract import (
    Gatherer,
    GathererWrapper,
    Selection,
    background_play,
    group_rewards,
    make_gatherer,
    play_groups,
)
from agentgym.training.gatherers.groups import (
    GatheredGroup,
    fails_whole,
    in_groups,
    success_of,
    untrained,
    without_help,
)
from agentgym.training.gatherers.step import StepRequest

__all__ = [
    "GatheredGroup",
    "Gatherer",
    "GathererWrapper",
    "Selection",
    "StepRequest",
    "background_play",
    "fails_whole",
    "group_rewards",
    "in_groups",
    "make_gatherer",
    "play_groups",
    "success_of",
    "untrained",
    "without_help",
]

__getattr__ = moved_names(__name__)
