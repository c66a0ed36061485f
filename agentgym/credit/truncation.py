"""What to make of truncated episodes, other than to score them as they stand: groups with other outcomes.

Each function takes a group and gives the group that an estimator then gets. In a recipe these are the
wrapper `truncation`. Leaving truncated episodes out of the loss is a matter of the advantages: `masked`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agentgym.credit.critics import value_after_last
from agentgym.credit.group import Group
from agentgym.errors import CreditError


def bootstrapped(group: Group) -> Group:
    """The group where the outcome of a truncated episode also holds what the critic still expects after its last turn.

    Unbiased only as far as the critic is right. `turn_gae` has an option of its own for it.
    Raises: MissingSignalError without outcomes or values; CreditError naming a truncated trajectory whose value
        after its last turn is missing.
    """
    valid = group.select(group.valid)
    after = np.zeros(group.size)
    after[group.valid] = value_after_last(valid, "bootstrap")
    return replace(group, outcomes=group.signal("outcomes") + after)


def overlong_penalised(group: Group, *, limit_tokens: int, buffer_tokens: int, penalty: float = 1.0) -> Group:
    """The group where an episode that comes near its token limit loses up to `penalty` of its outcome.

    Nothing up to limit_tokens - buffer_tokens of its own tokens, then more in proportion, all of it from the limit on.
    A truncated episode that was scored as a failure anyway is pushed away from its length gently, not at once.

    Args:
        limit_tokens, buffer_tokens: own tokens of an episode, at least 1, the buffer within the limit.
        penalty: reward units, at least 0.
    Raises: MissingSignalError without outcomes or lengths; CreditError for numbers that make no sense.
    Source: soft overlong punishment of DAPO, arXiv:2503.14476, eq. 13.
    """
    if not (1 <= buffer_tokens <= limit_tokens and 0 <= penalty < np.inf):
        raise CreditError(
            f"limit_tokens={limit_tokens}, buffer_tokens={buffer_tokens}, penalty={penalty}: expected "
            "1 <= buffer_tokens <= limit_tokens and a penalty from 0 up."
        )
    tokens = np.where(group.turn_mask, group.signal("lengths"), 0.0).sum(axis=1)
    over = np.clip((tokens - (limit_tokens - buffer_tokens)) / buffer_tokens, 0.0, 1.0)
    return replace(group, outcomes=group.signal("outcomes") - penalty * over)
