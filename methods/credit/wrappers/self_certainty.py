"""Self-certainty: also reward a turn for how certain the policy was in the spans that the reward marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agentgym.credit import Array, BiasClass, Group
from agentgym.credit.wrappers import Estimate, define_wrapper, pad_tokens
from agentgym.options import Weight


def _bias(base: BiasClass, options: Mapping[str, Any]) -> BiasClass:
    return "heuristic" if options["weight"] else base


@define_wrapper(
    source="Kang et al. 2025, arXiv:2502.18581; as the reward of a rationale, beside that of the action: Shop-R1, "
    "Zhang et al. 2025, arXiv:2507.17842. That turns may be paid apart: our own",
    requires=("token_certainties", "span_values", "lengths"),
    bias=_bias,
    same_objective=False,
)
def self_certainty(
    estimate: Estimate,
    groups: Sequence[Group],
    *,
    weight: Weight = 0.1,
    paid: Literal["turns", "end"] = "turns",
) -> list[Array]:
    """The wrapped estimator on rewards to which weight * mean KL(U || pi) is added: U is uniform, the mean is over a
    turn's marked tokens.

    Marked tokens are those of the spans that a reward names, whatever the span's value: `behaviour_action` names
    rationales. A turn without spans, or whose spans were not found, gets no bonus. The certainty is a property of the
    current policy; no gradient flows through it, so the result is declared heuristic.

    Args:
        weight: in reward units per nat. A peaked distribution over a vocabulary of 150,000 has some 10 to 20 nats.
        paid: "turns" adds each turn's own mean to the turn's reward; "end" adds the mean over all these tokens of an
            episode to its outcome, for estimators of outcomes.
    Returns: as the wrapped estimator; with `weight = 0.0` exactly what it gives.
    """
    if not weight:
        return estimate(groups)
    return estimate([_paid(group, weight, at_the_end=paid == "end") for group in groups])


def _paid(group: Group, weight: float, *, at_the_end: bool) -> Group:
    inside: NDArray[np.bool_] = ~np.isnan(pad_tokens(group, group.signal("span_values"), otherwise=np.nan))
    certainties = np.where(inside, pad_tokens(group, group.signal("token_certainties"), otherwise=0.0), 0.0)
    if at_the_end:
        bonus = weight * _means(certainties.sum(axis=(1, 2)), inside.sum(axis=(1, 2)))
        return replace(group, outcomes=group.signal("outcomes") + bonus)
    bonus = weight * _means(certainties.sum(axis=2), inside.sum(axis=2))
    rewards = np.full(group.turn_mask.shape, np.nan) if group.turn_rewards is None else group.turn_rewards
    return replace(group, turn_rewards=np.where(inside.any(axis=2), np.nan_to_num(rewards) + bonus, rewards))


def _means(sums: Array, counts: Array) -> Array:
    return np.divide(sums, counts, out=np.zeros(sums.shape), where=counts > 0)
