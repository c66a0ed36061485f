"""What every registered estimator promises with its defaults; `test_every_estimator` checks each entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Promise:
    """Properties with default options.

    Attributes:
        shift: P3, a constant added to every outcome (and to whatever predicts outcomes) changes nothing.
        scale: P4, all reward units times c: advantages times c ("units"), unchanged ("deviations", up to
            the epsilon), or neither (None).
        zero_sum: P5, the mean advantages of the trajectories sum to 0.
        monotone: P12, a better own outcome lowers none of the own advantages.
        one_turn: P6, what it equals bit for bit where every trajectory has one turn; None: nothing simpler.
        bounded: P11, |A| <= (N-1)/sqrt(N).
        same_sign: P15, every turn of a trajectory has the sign of its return above the mean.
    """

    shift: bool = True
    scale: Literal["units", "deviations"] | None = "units"
    zero_sum: bool = False
    monotone: bool = True
    one_turn: str | None = None
    bounded: bool = False
    same_sign: bool = False


IN_UNITS = {"one_turn": "rloo"}
TRAJECTORY = {"zero_sum": True, "same_sign": True}
DEVIATIONS = {"scale": "deviations"}

PROMISES: dict[str, Promise] = {
    # of whole trajectories
    "grpo": Promise(**DEVIATIONS, **TRAJECTORY, bounded=True, one_turn="grpo"),
    "flow_grpo": Promise(**DEVIATIONS, zero_sum=True, bounded=True, one_turn="grpo(turn_weight=0.0)"),
    "dr_grpo": Promise(**TRAJECTORY, one_turn="dr_grpo"),
    "rloo": Promise(**TRAJECTORY, one_turn="rloo"),
    "loop": Promise(**TRAJECTORY, one_turn="rloo"),
    "opo": Promise(),
    "otb": Promise(),
    "mapo": Promise(shift=False, scale=None, monotone=False, **TRAJECTORY),  # divides by the mean
    "user_rl": Promise(shift=False, **DEVIATIONS, zero_sum=True),  # discounts by length
    "gdpo": Promise(**DEVIATIONS, zero_sum=True, monotone=False),  # components that agree more spread the sum
    "agentrl": Promise(**DEVIATIONS, **TRAJECTORY),
    "reinforce_pp": Promise(**DEVIATIONS, zero_sum=True, monotone=False),  # the spread grows with the own return
    "reinforce_pp_baseline": Promise(**DEVIATIONS, **TRAJECTORY),
    # of turns
    "return_to_go": Promise(**IN_UNITS),
    "mt_grpo": Promise(**IN_UNITS),
    "mt_grpo_reach": Promise(**DEVIATIONS),
    "mt_grpo_two_segment": Promise(**DEVIATIONS),
    "gtpo": Promise(scale=None),  # the epsilon counts where few reached a turn
    "kevin": Promise(shift=False, **DEVIATIONS, monotone=False, one_turn="grpo(ddof=0)"),  # discounts by length
    "rebn": Promise(**DEVIATIONS, monotone=False),
    "hrpo": Promise(**DEVIATIONS),
    "hybrid": Promise(shift=False, **DEVIATIONS),
    "gigpo": Promise(shift=False, **DEVIATIONS, monotone=False),
    "hgpo": Promise(shift=False, **DEVIATIONS, monotone=False),
    "rtmc": Promise(),
    # of critics
    "turn_gae": Promise(),
    "bilevel_gae": Promise(),
    "ragen": Promise(shift=False),
    "archer": Promise(),
    "sweet_rl": Promise(),
    # of evidence
    "potential_shaping": Promise(),
    "information_gain": Promise(scale=None),  # a probability has no reward units
    "igpo": Promise(shift=False, scale=None, monotone=False, one_turn="grpo(turn_weight=0.0)"),  # one mean of both
    "trace": Promise(**DEVIATIONS),
    "spa": Promise(**IN_UNITS),
    "hindsight": Promise(shift=False, scale=None, monotone=False, one_turn="grpo", same_sign=True),  # what succeeds
    "hca": Promise(shift=False, monotone=False),  # no baseline
    "hcapo": Promise(shift=False),
    # of branches and replays
    "sibling": Promise(),
    "tree": Promise(**DEVIATIONS, monotone=False),
    "vine": Promise(),
    "leave_one_turn_out": Promise(zero_sum=True, one_turn="rloo"),
    "shapley": Promise(zero_sum=True, one_turn="rloo"),
}
