"""Other outcomes for truncated episodes, instead of scoring them as they stand.

Each function takes a group and returns the group that the estimator gets. In a recipe they are the wrapper
`truncation`. To leave truncated episodes out of the loss, use the wrapper `masked`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agentgym.credit.critics import value_after_last
from agentgym.credit.group import Group
from agentgym.errors import CreditError


def bootstrapped(group: Group) -> Group:
    """The group in which the value after the last turn is added to the outcome of a truncated episode.

    As biased as the critic is wrong. `turn_gae` has an option of its own for it.
    Raises: MissingSignalError without outcomes or values; CreditError naming a truncated trajectory whose value
        after its last turn is missing.
    """
    valid = group.select(group.valid)
    after = np.zeros(group.size)
    after[group.valid] = value_after_last(valid, "bootstrap")
    return replace(group, outcomes=group.signal("outcomes") + after)


def overlong_penalised(group: Group, *, limit_tokens: int, buffer_tokens: int, penalty: float = 1.0) -> Group:
    """The group in which an episode near its token limit loses up to `penalty` of its outcome.

    It loses nothing up to limit_tokens - buffer_tokens of its own tokens, then linearly more, and all of `penalty` from
    limit_tokens on.

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
    excess = np.clip((tokens - (limit_tokens - buffer_tokens)) / buffer_tokens, 0.0, 1.0)
    return replace(group, outcomes=group.signal("outcomes") - penalty * excess)
