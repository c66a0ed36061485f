"""check_estimator passes a sound estimator and names the fault of every broken one."""

from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
from breaches import breach

from agentgym.credit import Group, define_estimator, estimator
from agentgym.testing import check_estimator


def centred(group: Group) -> list[np.ndarray]:
    """A sound estimator, written from nothing: outcome minus the mean of the valid others."""
    if group.valid.sum() < 2:
        return [np.zeros(k) for k in group.turns]
    mean = np.mean([o for o, ok in zip(group.outcomes, group.valid, strict=True) if ok])
    if len(set(group.outcomes[group.valid])) == 1:
        return [np.zeros(k) for k in group.turns]
    pairs = zip(group.outcomes, group.valid, group.turns, strict=True)
    return [np.full(k, outcome - mean if ok else 0.0) for outcome, ok, k in pairs]


def test_a_sound_estimator_passes():
    check_estimator(centred)
    check_estimator("return_to_go", scale="std")


def test_what_an_estimator_declares_is_what_is_asked_of_it():
    """One over a batch, one of a critic that looks at no outcome, one that compares turns with each other."""
    check_estimator("reinforce_pp_baseline")
    check_estimator("archer")
    check_estimator("gigpo", baseline="loo")


def test_an_estimator_that_compares_turns_must_say_so():
    @define_estimator(requires=("outcomes",), bias="biased", source="our own")
    def pooled(group: Group) -> np.ndarray:
        """Turns later in an episode are worth less."""
        return group.outcomes[:, None] - 0.1 * np.arange(group.turn_mask.shape[1])

    with breach("Three equal trajectories"):
        check_estimator(pooled)
    check_estimator(dataclasses.replace(pooled, zero_if_equal=False))


def test_who_declares_to_be_unbiased_and_is_not_is_told_where_and_by_how_much():
    """Of returns above their mean, itself in it, 1/N is missing."""
    short_of_it = dataclasses.replace(estimator("dr_grpo"), declared_bias="unbiased")
    with breach("declares `unbiased`", "0.5 on flip with groups of 2, 0.33 on flip with groups of 3", "back_and_forth"):
        check_estimator(short_of_it)
    with breach("0.33 on flip with groups of 3, 0.25 on flip with groups of 4"):
        check_estimator(dataclasses.replace(short_of_it, minimum_group=3))


def test_weights_of_rewards_are_part_of_the_objective_and_not_a_bias():
    check_estimator("rloo", turn_weight=0.0)
    check_estimator("return_to_go", outcome_weight=2.0, turn_weight=0.5)


def test_a_wrapper_that_replaces_the_rewards_is_no_breach_of_the_class_of_what_it_wraps():
    """The class is then of another objective, which these problems know nothing of."""
    assert not estimator("rloo | gated").same_objective
    check_estimator(estimator("rloo | gated"))
    assert estimator("rloo | masked").same_objective
    check_estimator(estimator("rloo | masked"))


def test_an_estimator_that_treats_the_first_trajectory_apart_is_caught():
    def first_is_baseline(group):
        base = centred(group)
        return [a - (base[0][0] if group.valid[i] else 0) for i, a in enumerate(base)]

    with breach("order of the trajectories"):
        check_estimator(first_is_baseline)


def test_an_estimator_that_is_random_is_caught():
    with breach("Asked twice"):
        check_estimator(lambda group: [a * random.random() for a in centred(group)])


def test_an_estimator_that_counts_failed_trajectories_as_zero_is_caught():
    def infra_as_zero(group):
        outcomes = np.nan_to_num(group.outcomes)
        return [np.full(k, o - outcomes.mean()) for o, k in zip(outcomes, group.turns, strict=True)]

    with breach("A failed trajectory gets"):
        check_estimator(infra_as_zero)
    with breach("changes the advantages of the others"):
        check_estimator(infra_as_zero)


def test_an_estimator_that_gives_a_lone_trajectory_its_raw_reward_is_caught():
    def raw_when_alone(group):
        if group.valid.sum() > 1:
            return centred(group)
        return [np.full(k, o if ok else 0.0) for o, ok, k in zip(group.outcomes, group.valid, group.turns, strict=True)]

    with breach("A group of one gets"):
        check_estimator(raw_when_alone)


def test_an_estimator_whose_rounding_looks_like_a_difference_is_caught():
    def unguarded(group):
        base = np.where(group.valid, group.outcomes, 0.0)
        if group.valid.sum() < 2:
            return [np.zeros(k) for k in group.turns]
        return [np.full(k, (o + 1e-3) if ok else 0.0) for o, ok, k in zip(base, group.valid, group.turns, strict=True)]

    with breach("Three equal trajectories"):
        check_estimator(unguarded)


def test_an_estimator_that_forgets_the_outcome_is_caught():
    @define_estimator(requires=("turn_rewards",), bias="biased", source="our own")
    def rewards_only(group: Group) -> np.ndarray:
        """Turn rewards above their mean."""
        rewards = np.nan_to_num(group.turn_rewards)
        return rewards - rewards.mean(axis=0)

    with breach("outcome makes no difference"):
        check_estimator(rewards_only)


def test_an_estimator_of_the_wrong_shape_is_caught():
    with breach("expected a float64 array"):
        check_estimator(lambda group: [np.array([a.sum()]) for a in centred(group)])
    with breach("expected a float64 array"):
        check_estimator(lambda group: [a.astype(np.float32) for a in centred(group)])
    with breach("one per trajectory"):
        check_estimator(lambda group: np.zeros(3))


def test_an_estimator_that_divides_by_zero_is_caught():
    with breach("Finite signals gave"):
        check_estimator(lambda group: [a * math.inf if a.any() else a for a in centred(group)])


def test_an_estimator_that_changes_its_group_is_caught():
    def greedy(group):
        advantages = centred(group)
        group.outcomes[:] = 0.0
        return advantages

    with breach("changes the group"):
        check_estimator(greedy)
