"""The estimator of docs/credit.md."""

import numpy as np

from agentgym.credit import Group, declare
from agentgym.testing import check_estimator


@declare(requires=("outcomes",), bias="unbiased", source="our own")
def above_the_others(group: Group) -> np.ndarray:
    """Return minus the mean of the others, on every turn."""
    returns = group.outcomes + np.nansum(group.turn_rewards, axis=1)
    others = (returns.sum() - returns) / (len(returns) - 1)
    return np.where(group.played, (returns - others)[:, None], 0.0)


check_estimator(above_the_others)
print("It is unbiased.")
