"""Truncation: change the outcomes of episodes that a budget ended or nearly ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from agentgym import CreditError
from agentgym.credit import Array, BiasClass, Group, arithmetic
from agentgym.credit.wrappers import Estimate, define_wrapper
from agentgym.options import Count, Weight


def _requires(options: Mapping[str, Any]) -> tuple[str, ...]:
    return ("outcomes", "values" if options["mode"] == "bootstrap" else "lengths")


def _bias(base: BiasClass, options: Mapping[str, Any]) -> BiasClass:
    return "biased" if options["mode"] == "bootstrap" and base != "heuristic" else base


@define_wrapper(
    source="overlong: DAPO, arXiv:2503.14476, eq. 13; bootstrap: the critic's word",
    requires=_requires,
    bias=_bias,
    same_objective=False,
)
def truncation(
    estimate: Estimate,
    groups: Sequence[Group],
    *,
    mode: Literal["overlong", "bootstrap"] = "overlong",
    limit_tokens: Count = 4096,
    buffer_tokens: Count = 1024,
    penalty: Weight = 1.0,
) -> list[Array]:
    """The wrapped estimator with a penalty on long episodes, or with bootstrapped outcomes of truncated ones.

    With "overlong" the wrapped estimator's bias class applies to another objective; with "bootstrap" the bias is the
    critic's error. To leave such episodes out of the loss instead, see `masked`.

    Args:
        mode: "overlong" as `overlong_penalised`, "bootstrap" as `bootstrapped`.
        limit_tokens, buffer_tokens, penalty: of "overlong", in the trajectory's own tokens and in reward units.
    Returns: as the wrapped estimator. Degenerate: without long or truncated episodes, exactly the wrapped estimator.
    Raises: CreditError for a buffer above the limit, or a truncated trajectory without a value after its last turn.
    """
    if mode == "bootstrap":
        return estimate([bootstrapped(group) for group in groups])
    limits = {"limit_tokens": limit_tokens, "buffer_tokens": buffer_tokens}
    return estimate([overlong_penalised(group, **limits, penalty=penalty) for group in groups])


def bootstrapped(group: Group) -> Group:
    """Return the group with the value after the last turn added to the outcome of each truncated episode.

    Its bias is the critic's error. `turn_gae` has its own option for this.
    Raises: MissingSignalError without outcomes or values; CreditError naming a truncated trajectory without a value
        after its last turn.
    """
    valid = group.select(group.valid)
    after = np.zeros(group.size)
    after[group.valid] = arithmetic.value_after_last(valid, "bootstrap")
    return replace(group, outcomes=group.signal("outcomes") + after)


def overlong_penalised(group: Group, *, limit_tokens: int, buffer_tokens: int, penalty: float = 1.0) -> Group:
    """Return the group with up to `penalty` subtracted from the outcome of each episode near its token limit.

    The penalty is 0 up to limit_tokens - buffer_tokens of the episode's own tokens, grows linearly, and is full from
    limit_tokens on.

    Args:
        limit_tokens, buffer_tokens: own tokens of an episode, at least 1, the buffer within the limit.
        penalty: reward units, at least 0.
    Raises: MissingSignalError without outcomes or lengths; CreditError for invalid numbers.
    Source: soft overlong punishment of DAPO, arXiv:2503.14476, eq. 13.
    """
    if not (1 <= buffer_tokens <= limit_tokens and 0 <= penalty < np.inf):
        raise CreditError(
            f"limit_tokens={limit_tokens}, buffer_tokens={buffer_tokens}, penalty={penalty} is not valid: expected 1 "
            "<= buffer_tokens <= limit_tokens, and a finite penalty of at least 0."
        )
    tokens = np.where(group.turn_mask, group.signal("lengths"), 0.0).sum(axis=1)
    excess = np.clip((tokens - (limit_tokens - buffer_tokens)) / buffer_tokens, 0.0, 1.0)
    return replace(group, outcomes=group.signal("outcomes") - penalty * excess)
