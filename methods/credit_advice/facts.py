"""Suggest an estimator for a run, from facts about its groups.

The facts need only the episodes of one or more steps. The suggestions are based on the runs in docs/credit.md and on
subtasks.py, a model of episodes that gives each estimator's signal-to-noise ratio.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentgym import CreditError
from agentgym.credit import CreditWarning, Group, arithmetic, estimator
from agentgym.text import percent

from .subtasks import SubtaskChain, signal_to_noise

HALF, MOSTLY = 0.5, 0.8
ALIKE = 8  # for episodes of up to this many turns, no estimator was observed to be better than all others
LONG = 4  # for episodes of at least this many turns, a critic is expected to remove much of the noise
CANDIDATES = ("rloo(turn_weight=0.0)", "rloo", "return_to_go", "turn_gae(lam=0.9)", "gigpo", "vine")


@dataclass(frozen=True, slots=True)
class CreditFacts:
    """Facts about the groups of a run. Shares are from 0 to 1, and NaN if undefined.

    Attributes:
        groups, episodes: the numbers examined; failed episodes are left out.
        turns, most_turns: median and largest number of turns of an episode.
        outcome: mean outcome.
        silent_outcome: share of groups whose outcomes are all equal, so that the outcome alone teaches nothing.
        silent: share of groups in which outcomes and turn rewards are all equal.
        paid_turns: share of turns at whose index the turn rewards of the group's episodes differ.
        later_noise: share of the variance of the return from a turn on that is due to later turns.
        repeated_states: share of turns whose state another episode of the group visited; NaN without state keys.
        has_potential: whether the environment provides a potential.
    """

    groups: int
    episodes: int
    turns: float
    most_turns: int
    outcome: float
    silent_outcome: float
    silent: float
    paid_turns: float
    later_noise: float
    repeated_states: float
    has_potential: bool


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An estimator to try, in recipe notation, and the reason."""

    estimator: str
    reason: str


def facts_of(groups: Sequence[Group]) -> CreditFacts:
    """Return the facts of groups with two or more valid trajectories. Raises: CreditError if there is none."""
    usable = [group.select(group.valid) for group in groups if int(group.valid.sum()) > 1]
    if not usable:
        raise CreditError(
            "No group has two valid trajectories, so there is nothing to compare. Play groups of at least two episodes."
        )
    counts = np.concatenate([group.turns for group in usable])
    outcomes = [group.signal("outcomes") for group in usable]
    paid, turns, own_variance, later_variance = 0.0, 0, 0.0, 0.0
    silent = 0
    for group, outcome in zip(usable, outcomes, strict=True):
        rewards, mask = arithmetic.rewards_or_zero(group), group.turn_mask
        later = np.cumsum(rewards[:, ::-1], axis=1)[:, ::-1] - rewards + outcome[:, None]
        differs = False
        for index in range(rewards.shape[1]):
            column = mask[:, index]
            spread = float(np.var(rewards[column, index])) if column.sum() > 1 else 0.0
            differs |= spread > 0
            paid += column.sum() * (spread > 0)
            turns += int(column.sum())
            own_variance += column.sum() * spread
            later_variance += column.sum() * float(np.var(later[column, index])) if column.sum() > 1 else 0.0
        silent += not differs and np.ptp(outcome) == 0
    total = own_variance + later_variance
    return CreditFacts(
        groups=len(usable),
        episodes=sum(group.size for group in usable),
        turns=float(np.median(counts)),
        most_turns=int(counts.max()),
        outcome=float(np.concatenate(outcomes).mean()),
        silent_outcome=float(np.mean([np.ptp(outcome) == 0 for outcome in outcomes])),
        silent=silent / len(usable),
        paid_turns=paid / turns,
        later_noise=later_variance / total if total > 0 else math.nan,
        repeated_states=1 - arithmetic.singleton_share(usable),
        has_potential=all(group.potentials is not None for group in usable),
    )


def predicted_ratios(facts: CreditFacts, *, group_size: int) -> dict[str, float]:
    """Return the signal-to-noise ratio of a group's gradient per estimator, in the model closest to the run.

    The model has as many turns as the median episode, all of them decisive, and the chance of a right turn is set so
    that episodes succeed as often as in the run. One skill serves all turns. Where an estimator needs a critic, the
    critic is ideal.
    """
    turns = max(1, round(facts.turns))
    success = min(max(facts.outcome, 0.02), 0.98)
    chain = SubtaskChain(turns, turns, "dense" if facts.paid_turns else "outcome")
    ratios = {}
    for text in CANDIDATES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CreditWarning)
            chosen = estimator(text)
        by_skill = signal_to_noise(chosen, chain, chance=success ** (1 / turns), size=group_size, groups=200)
        ratios[text] = by_skill["shared"]
    return ratios


def suggestions(facts: CreditFacts) -> list[Suggestion]:
    """Return suggestions: estimators to try, the best first; then changes that would help more than any estimator."""
    later = f"{percent(facts.later_noise)} of the variance of a turn's return comes from later turns"
    if facts.turns <= ALIKE:
        reason = (
            f"half of the episodes have {facts.turns:g} turns or fewer, and up to {ALIKE} turns no estimator was "
            "seen to be better"
        )
    elif facts.paid_turns:
        reason = f"{percent(facts.paid_turns)} of the turns have rewards that tell episodes apart, and it places them"
    else:
        reason = "only the outcome is rewarded; it is unbiased, needs no critic, and here equals rloo"
    listed = [Suggestion("return_to_go", reason)]
    if facts.turns >= LONG and facts.later_noise >= MOSTLY:
        reason = (
            f"{later}, which a critic takes away, at 1.2 to 2 times the processor time; where one skill serves all "
            "turns it saved no episodes"
        )
        listed.append(Suggestion("turn_gae(lam=0.9)", reason))
    if facts.repeated_states >= HALF:
        reason = f"{percent(facts.repeated_states)} of the turns were in a state of another episode of their group"
        listed.append(Suggestion("gigpo", reason))
    if not facts.paid_turns and facts.silent_outcome >= HALF:
        reason = f"the outcomes of {percent(facts.silent_outcome)} of the groups are equal, so give turn rewards"
        if facts.has_potential:
            reason += ": the environment has a potential, whose gains `subgoal_feedback` pays turn by turn"
        listed.append(Suggestion("", reason))
    elif facts.silent >= HALF:
        reason = f"{percent(facts.silent)} of the groups tell no episode from another: give tasks of another difficulty"
        listed.append(Suggestion("", reason))
    return listed
