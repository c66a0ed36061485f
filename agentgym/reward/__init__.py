"""Rewards: named components for turns, outcomes and groups, and how to combine them.

contract.py    Reward, and the checks on its results
functions.py   a reward made from one function
comparison.py  compares numbers and texts in answers
submission.py  decides who is at fault if a submission cannot be judged: the agent or the infrastructure
combined.py    several rewards as one: weights, schedules over training, gates, caps
"""

from agentgym.moved import moved_names
from agentgym.reward import comparison
from agentgym.reward.contract import (
    SUCCESS,
    Components,
    RewardStage,
    validate_components,
    validate_each,
    validate_feedback,
    validate_spans,
)
from agentgym.reward.submission import judge_submission, read_submission
from agentgym.text import fold_text

__all__ = [
    "SUCCESS",
    "Components",
    "RewardStage",
    "comparison",
    "fold_text",
    "judge_submission",
    "read_submission",
    "validate_components",
    "validate_each",
    "validate_feedback",
    "validate_spans",
]


__getattr__ = moved_names(__name__)
