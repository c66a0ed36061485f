"""Rewards: named components for turns, outcomes and groups, and how they are put together.

contract.py  what a reward is, and the checks on what it answers
functions.py a reward made of one function
comparison.py numbers and texts of answers, compared
submission.py whose fault it is that a submission cannot be judged
combined.py  several rewards as one: weights, schedules over training, gates, caps
"""

from agentgym.moved import moved_names
from agentgym.reward.combined import Combined, Gate, Schedule
from agentgym.reward.comparison import fold_answer, read_number, same_answer, same_data, same_number
from agentgym.reward.contract import (
    SUCCESS,
    Components,
    Reward,
    RewardStage,
    validate_components,
    validate_each,
    validate_feedback,
)
from agentgym.reward.functions import reward_function
from agentgym.reward.submission import judge_submission, read_submission
from agentgym.text import fold_text

__all__ = [
    "SUCCESS",
    "Combined",
    "Components",
    "Gate",
    "Reward",
    "RewardStage",
    "Schedule",
    "fold_answer",
    "fold_text",
    "judge_submission",
    "read_number",
    "read_submission",
    "reward_function",
    "same_answer",
    "same_data",
    "same_number",
    "validate_components",
    "validate_each",
    "validate_feedback",
]


__getattr__ = moved_names(__name__)
