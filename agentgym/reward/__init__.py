"""Rewards: named components for turns, outcomes and groups, and how they are put together.

contract.py  what a reward is, and the checks on what it answers
functions.py a reward made of one function
combined.py  several rewards as one: weights, schedules over training, gates, caps
"""

from agentgym.reward.combined import Combined, Gate, Schedule
from agentgym.reward.contract import (
    SUCCESS,
    Components,
    Reward,
    RewardStage,
    validate_components,
    validate_each,
    validate_feedback,
    validate_spans,
)
from agentgym.reward.functions import FunctionReward, reward_function

__all__ = [
    "SUCCESS",
    "Combined",
    "Components",
    "FunctionReward",
    "Gate",
    "Reward",
    "RewardStage",
    "Schedule",
    "reward_function",
    "validate_components",
    "validate_each",
    "validate_feedback",
    "validate_spans",
]
