"""The arithmetic that estimators share: numpy on the arrays of a group, in reward units.

returns.py           returns of episodes and of turns
statistics.py        baselines and standard deviations over the trajectories of a group
label_groups.py      the same over turns that carry one label
whitening.py         the same over all turns of a batch
critics.py           a critic's values before each turn, and generalised advantage estimates
"""

from agentgym.credit.arithmetic.critics import Truncated, turn_advantages, value_after_last, values_before
from agentgym.credit.arithmetic.label_groups import LabelGroups, group_by_label
from agentgym.credit.arithmetic.returns import (
    broadcast_to_turns,
    discounted_sums,
    episode_returns,
    returns_to_go,
    rewards_or_zero,
)
from agentgym.credit.arithmetic.statistics import (
    SMALLEST_RELATIVE_STD,
    SMALLEST_STD,
    baseline_of,
    centred,
    divide_by_std,
    normalise_columns,
    stable_std,
    standardised,
    subtract_index_baseline,
)
from agentgym.credit.arithmetic.whitening import Weigh, whitened

__all__ = [
    "SMALLEST_RELATIVE_STD",
    "SMALLEST_STD",
    "LabelGroups",
    "Truncated",
    "Weigh",
    "baseline_of",
    "broadcast_to_turns",
    "centred",
    "discounted_sums",
    "divide_by_std",
    "episode_returns",
    "group_by_label",
    "normalise_columns",
    "returns_to_go",
    "rewards_or_zero",
    "stable_std",
    "standardised",
    "subtract_index_baseline",
    "turn_advantages",
    "value_after_last",
    "values_before",
    "whitened",
]
