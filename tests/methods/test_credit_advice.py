"""Facts of groups by hand, and what is advised where they differ."""

from __future__ import annotations

import math

import pytest

from agentgym.credit import Group
from agentgym.errors import CreditError
from agentgym.methods.credit_advice.facts import facts_of, predicted_ratios, suggestions


def group(**signals) -> Group:
    """Two episodes of four turns and one that failed."""
    given = {"turns": [4, 4, 4], "valid": [True, True, False], "outcomes": [1.0, 0.0, None], **signals}
    return Group.from_arrays(**given)


PAID = [[0.5, None, 0.0, None], [0.0, None, 0.0, None], [9.0] * 4]


def test_the_facts_are_those_of_the_episodes_that_count():
    """Turn 0 alone tells the two apart. Variances: own 1/16; later the outcome's 1/4, at each of four turns."""
    facts = facts_of([group(turn_rewards=PAID, state_keys=[["a", "b", "c", "d"], ["a", "x", "c", "y"], ["z"] * 4])])
    assert (facts.groups, facts.episodes, facts.turns, facts.most_turns, facts.outcome) == (1, 2, 4.0, 4, 0.5)
    assert (facts.silent_outcome, facts.silent) == (0.0, 0.0)
    assert facts.paid_turns == 0.25
    assert facts.later_noise == pytest.approx(1.0 / (1.0 + 0.0625))
    assert facts.repeated_states == 0.5
    assert not facts.has_potential


def test_equal_outcomes_are_silent_and_turn_rewards_may_speak():
    quiet, paid = group(outcomes=[0.0, 0.0, 1.0]), group(outcomes=[0.0, 0.0, 1.0], turn_rewards=PAID)
    facts = facts_of([quiet, paid])
    assert (facts.silent_outcome, facts.silent) == (1.0, 0.5)
    assert math.isnan(facts_of([quiet]).later_noise)


def test_a_run_without_two_valid_episodes_of_a_task_cannot_be_judged():
    with pytest.raises(CreditError, match="No group has two valid trajectories"):
        facts_of([group(valid=[True, False, False])])


def test_the_default_comes_first_and_long_noisy_episodes_may_try_a_critic():
    short = facts_of([Group.from_arrays(turns=[2, 2], outcomes=[1.0, 0.0])])
    assert [s.estimator for s in suggestions(short)] == ["return_to_go"]
    long = facts_of([group(turn_rewards=PAID)])
    assert [s.estimator for s in suggestions(long)] == ["return_to_go", "turn_gae(lam=0.9)"]


def test_the_reason_says_up_to_how_many_turns_nothing_differed():
    """Doors of 2, 4 and 8 turns: no difference. Above, what is said of the rewards stands."""
    [eight, *_] = suggestions(facts_of([Group.from_arrays(turns=[8, 8], outcomes=[1.0, 0.0])]))
    assert "8 turns or fewer, and up to 8 turns no estimator was seen to be better" in eight.reason
    [nine, *_] = suggestions(facts_of([Group.from_arrays(turns=[9, 9], outcomes=[1.0, 0.0])]))
    assert nine.reason.startswith("only the outcome is rewarded")


def test_silent_outcomes_of_an_environment_with_a_potential_call_for_turn_rewards():
    potentials = [[0.0, 0.25, 0.25, 0.5]] * 3
    [*_, last] = suggestions(facts_of([group(outcomes=[0.0, 0.0, 0.0], potentials=potentials)]))
    assert last.estimator == ""
    assert "`subgoal_feedback`" in last.reason


def test_repeated_states_are_an_occasion_for_comparing_in_states():
    keys = [["a", "b", "c", "d"]] * 3
    assert "gigpo" in [s.estimator for s in suggestions(facts_of([group(state_keys=keys)]))]


def test_turn_rewards_that_are_rare_successes_raise_the_predicted_ratio():
    """In the model nearest to the run, an outcome that comes once in fifty tells little of eight turns."""
    outcome = facts_of([Group.from_arrays(turns=[8, 8], outcomes=[0.0, 0.0])])
    ratios = predicted_ratios(outcome, group_size=8)
    assert ratios["vine"] > ratios["rloo"] > 0
