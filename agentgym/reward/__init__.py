"""Rewards: named components for turns, outcomes and groups, and how they are put together.

contract.py  what a reward is, and the checks on what it answers
combined.py  several rewards as one: weights, schedules over training, gates, caps
"""

from agentgym.reward.combined import Combined, Gate, Schedule
from agentgym.reward.contract import (
    SUCCESS,
    Components,
    EpisodeView,
    Reward,
    RewardStage,
    TurnView,
    validate_components,
    validate_each,
)

__all__ = [
    "SUCCESS",
    "Combined",
    "Components",
    "EpisodeView",
    "Gate",
    "Reward",
    "RewardStage",
    "Schedule",
    "TurnView",
    "validate_components",
    "validate_each",
]
