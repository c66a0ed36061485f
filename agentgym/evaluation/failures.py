"""The meaning of every kind of failure, and its treatment in training.

The same table is in docs/evaluate.md, and a test compares the two. agentgym.storage.failures assigns the kinds.
A recipe's [train.failures] overrides the treatments given here; agentgym.training.loss.grpo_batches
applies them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from agentgym.storage.failures import LEVELS, Level

Treatment = Literal["scored", "mask_turn", "mask_episode", "excluded"]
TREATMENTS: tuple[Treatment, ...] = get_args(Treatment)
"""`scored`: the episode is trained on with its reward. `mask_turn`: turns with the failure get no advantage.
`mask_episode`: no turn of the episode gets an advantage. `excluded`: the episode is left out of every loss, baseline
and statistic."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A kind of failure.

    Attributes:
        level: the unit in which failures are counted. `meaning`: a description for readers, in the plural.
        treatment: the default treatment in training. `why`: the reason for it.
    """

    level: Level
    meaning: str
    treatment: Treatment
    why: str


_TABLE: dict[str, tuple[str, Treatment, str]] = {
    "malformed": ("calls that could not be read", "scored", "writing calls is learnt"),
    "unknown_tool": ("calls of a tool that does not exist", "scored", "knowing the tools is learnt"),
    "wrong_arguments": ("calls whose arguments do not fit the tool", "scored", "reading a tool's schema is learnt"),
    "tool_error": ("calls that the tool refused", "scored", "errors are how an environment is explored"),
    "timeout": ("calls that took too long", "scored", "the agent chose what to run"),
    "over_budget": ("calls after a budget was used up", "scored", "budgets are part of the task"),
    "repeated": ("calls made before with the same result", "scored", "asking twice costs turns, which the reward sees"),
    "cut": (
        "messages cut off at the limit of their tokens (max_turn_tokens)",
        "scored",
        "brevity is learnt; SimpleTIR masks such episodes where nothing could be run",
    ),
    "filtered": (
        "messages that a content filter stopped",
        "scored",
        "the model chose its words",
    ),
    "void": (
        "turns that neither spoke nor held a call that could be run",
        "scored",
        "saying nothing is a choice; SimpleTIR masks such episodes",
    ),
    "wrong_answer": ("episodes that answered, and were wrong", "scored", "it is what reward is for"),
    "refused": ("episodes in which the agent declined", "scored", "declining a task solves nothing"),
    "no_answer": ("episodes that a budget ended before an answer", "scored", "else endless episodes cost nothing"),
    "request_refused": (
        "episodes in which the gateway refused a request of the program, which went on all the same",
        "scored",
        "the agent's own commands may have sent it",
    ),
    "failed": (
        "episodes that failed by no fault of the agent (left out of every rate)",
        "excluded",
        "the agent did nothing wrong, so a reward of 0 would be wrong",
    ),
}
FAILURES = {kind: Failure(level, *_TABLE[kind]) for kind, level in LEVELS.items()}
"""Every kind of failure, in the order shown in tables."""

KINDS: dict[str, str] = {name: failure.meaning for name, failure in FAILURES.items()}
