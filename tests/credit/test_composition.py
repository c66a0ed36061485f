"""Estimators with their wrappers written in one line, and what is said where it cannot be read."""

from __future__ import annotations

import pytest
from credit_cases import GROUP, expect

from agentgym.credit import CreditWarning, estimator
from agentgym.credit.composition import parse_composition
from agentgym.credit.wrappers import define_wrapper
from agentgym.errors import CreditError, UnknownNameError
from agentgym.registry import load, names


def test_a_line_is_read_from_the_inside_out():
    parts = parse_composition("rloo(turn_weight=0.5) | gated(levels={'a': 1, 'b': -0.5}) | masked(overlong=True)")
    assert [(part.name, part.options) for part in parts] == [
        ("rloo", {"turn_weight": 0.5}),
        ("gated", {"levels": {"a": 1, "b": -0.5}}),
        ("masked", {"overlong": True}),
    ]


def test_a_composition_is_an_estimator_that_declares_itself():
    chosen = estimator("return_to_go(gamma=0.9) | off_policy(max_lag=2) | entropy_weighted", baseline="mean")
    assert chosen.name == "return_to_go | off_policy | entropy_weighted"
    assert chosen.requires == ("outcomes", "log_ratios", "versions", "entropies")
    assert (chosen.bias, chosen.scope, chosen.minimum_group) == ("heuristic", "group", 2)
    assert estimator("turn_gae | gated").minimum_group == 1
    assert estimator("rebn | gated").scope == "batch"


def test_wrappers_apply_in_the_order_in_which_they_are_written():
    """Cut, then made to a bonus, is something else than the other way round."""
    group = GROUP.with_signals(entropies=[[1, 1], [1], [1, 1, 1]], stop_reasons=["answered", "max_turns", "answered"])
    actual = estimator("rloo | masked(over_turn=True) | entropy_weighted")(group)
    assert actual[1].tolist() == [0]


def test_wrapping_by_hand_is_the_same():
    by_hand = load("credit_wrappers", "gated")(estimator("rloo"), threshold=1.0)
    expect(by_hand(GROUP), [list(a) for a in estimator("rloo | gated(threshold=1.0)")(GROUP)])


def test_a_wrapped_estimator_still_warns():
    with pytest.warns(CreditWarning, match="use 'mt_grpo'"):
        estimator("mt_grpo_reach | masked")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rloo |", "cannot be read: write a name"),
        ("rloo | gated(", "cannot be read: write a name"),
        ("rloo | gated(1.0)", "has an option without a name"),
        ("rloo | gated(**{})", "has an option without a name"),
        ("rloo | gated(threshold=open('x'))", "is not a plain value"),
        ("rloo | a.b", "'a.b' in .* is not a name"),
        ("rloo | 3", "'3' in .* is not a name"),
        ("rloo | gated(treshold=1)", "The wrapper 'gated' has no option 'treshold'. Did you mean 'threshold'"),
        ("rloo | gated(levels=3)", "expected a valid dictionary"),
        ("rloo | gated(levels={'a': 'b'})", "expected a valid number"),
        ("rloo | off_policy(max_lag=-1)", "expected greater than or equal to 0"),
        ("rloo | off_policy(max_lag=1.5)", "expected a valid integer"),
        ("rloo | off_policy(level='turns')", "expected 'turn', 'token' or 'sequence'"),
        ("rloo | entropy_weighted(limit=1)", "expected greater than 1"),
        ("rloo(gama=1) | gated", "'rloo' has no option 'gama'"),
    ],
)
def test_an_invalid_composition_names_the_reason(text, says):
    with pytest.raises(CreditError, match=says):
        estimator(text)


def test_an_unknown_wrapper_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'gated'"):
        estimator("rloo | gate")
    with pytest.raises(UnknownNameError, match="credit_wrappers"):
        estimator("rloo | grpo")


def test_a_wrapper_of_ones_own():
    @define_wrapper(source="our own")
    def halved(estimate, groups, *, by: float = 0.5):
        """Half of it."""
        return [by * advantages for advantages in estimate(groups)]

    chosen = halved(estimator("rloo"), by=0.25)
    assert (chosen.bias, chosen.name) == ("unbiased", "rloo | halved")
    expect(chosen(GROUP), [[1.35 / 4] * 2, [-0.9 / 4], [-0.45 / 4] * 3])
    with pytest.raises(CreditError, match="source is empty"):
        define_wrapper(source=" ")


@pytest.mark.parametrize("name", names("credit_wrappers"))
def test_every_registered_wrapper_has_a_summary(name):
    registered = load("credit_wrappers", name)
    assert registered.name == name
    assert registered.function.__doc__


def test_the_unwrapped_estimator_has_the_resolved_options():
    chosen = estimator("gigpo(turn_weight=0.5) | gated | off_policy(mode='mis')")
    assert chosen.unwrapped.name == "gigpo"
    assert (chosen.unwrapped.resolved_options["gamma"], chosen.unwrapped.resolved_options["turn_weight"]) == (0.95, 0.5)
    assert chosen.base is not None
    assert chosen.base.name == "gigpo | gated"
    plain = estimator("rloo")
    assert plain.unwrapped is plain
