"""Trees of trajectories: worked examples, what sharing does, and the exact gradient over every tree."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from credit_cases import expect
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.credit import Group, estimator
from agentgym.errors import CreditError
from agentgym.methods.credit.branches import build_tree
from agentgym.testing.exact.bias import estimated_gradient, trees
from agentgym.testing.exact.signals import PROBLEMS_WITH_EVIDENCE

# Two first turns, a and b; a is followed by x and by y, b by z. Only x led to success.
FORKED = Group.from_arrays(outcomes=[1, 0, 0], branches=[["a", "x"], ["a", "y"], ["b", "z"]])
Z = 1 / math.sqrt(3), 1 / math.sqrt(2)


def test_siblings_are_compared_with_each_other():
    """V(a) = 1/2, V(b) = 0: +-1/2. V(x) = 1, V(y) = 0: +-1. z was the only try after b and inherits -1/2."""
    actual = estimator("sibling", weigh="leaves")(FORKED)
    expect(actual, [[0.5, 1], [0.5, -1], [-0.5, -0.5]])


def test_a_turn_counts_as_often_as_it_was_sampled_and_not_as_often_as_it_was_followed():
    """Three rows. a: 3 * 1/2 over its 2 rows = 0.75; b: 3 * 1/2 = 1.5; x, y: 3 * 1/4 = 0.75; z: 3 * 1/2."""
    expect(estimator("sibling")(FORKED), [[0.375, 0.75], [0.375, -0.75], [-0.75, -0.75]])


def test_a_turn_without_siblings_can_be_left_out():
    expect(estimator("sibling", alone="zero", weigh="leaves")(FORKED), [[0.5, 1], [0.5, -1], [-0.5, 0]])


def test_a_forked_trajectory_need_not_repeat_the_turns_before_the_fork():
    """The second lists y alone, after a: then a stands once, and counts 3 * 1/2 = 1.5 there."""
    forked = Group.from_arrays(outcomes=[1, 0, 0], branches=[["a", "x"], ["y"], ["b", "z"]], parents=[None, "a", None])
    expect(estimator("sibling")(forked), [[0.75, 0.75], [-0.75], [-0.75, -0.75]])
    tree = build_tree(forked)
    assert tree.path.tolist() == [[0, 1], [0, 2], [3, 4]]


def test_a_reward_before_the_fork_does_not_change_credit_after_it():
    rewarded = FORKED.with_signals(turn_rewards=[[0.25, 0], [0.25, 0], [0, 0]])
    expect(estimator("sibling", weigh="leaves")(rewarded), [[0.75, 1], [0.75, -1], [-0.75, -0.75]])


def test_a_trunk_that_all_share_has_nothing_to_be_compared_with():
    shared = Group.from_arrays(outcomes=[1, 0], branches=[["a", "x"], ["a", "y"]])
    expect(estimator("sibling")(shared), [[0, 1], [0, -1]])


def test_without_a_fork_siblings_are_rloo():
    lone_leaves = FORKED.with_signals(branches=[["a", "x"], ["b", "y"], ["c", "z"]])
    expect(estimator("sibling")(lone_leaves), [list(a) for a in estimator("rloo")(lone_leaves)])
    unnamed = FORKED.with_signals(branches=[[None, None]] * 3)
    expect(estimator("sibling")(unnamed), [list(a) for a in estimator("rloo")(lone_leaves)])


def test_tree_grpo_adds_the_tree_to_the_group():
    """All: 1, 0, 0 has std 1/sqrt(3): 2/sqrt(3), -1/sqrt(3) twice. Tree a: 1, 0 gives +-1/sqrt(2); tree b nothing.

    a gets the mean of its leaves, 1/2 (2 - 1)/sqrt(3).
    """
    among_all, within = Z
    x, y, z = 2 * among_all + within, -among_all - within, -among_all
    expect(estimator("tree")(FORKED), [[among_all / 2, x], [among_all / 2, y], [z, z]], tolerance=5e-6)
    expect(estimator("tree", shared="once")(FORKED), [[among_all / 4, x], [among_all / 4, y], [z, z]], tolerance=5e-6)


def test_trees_of_one_leaf_each_are_grpo():
    """E15's edge."""
    lone_leaves = FORKED.with_signals(
        branches=[["a", "x"], ["b", "y"], ["c", "z"]], turn_rewards=[[1, 0], [0.5, 2], [0, 0]]
    )
    expect(estimator("tree")(lone_leaves), [list(a) for a in estimator("grpo")(lone_leaves)])


def test_vine_is_the_difference_of_the_values_around_a_turn():
    """V: 0.5, 0.75. 0.5 + 0.75 - 0.5 = 0.75, then 0 + 1 - 0.75 = 0.25: together R - V_0 = 1.5 - 0.5.

    The second 0 - 0.5. In the third the state before turn 1 was not played on from: 0.2 + 0.25 - 0.5, and before it
    0 + (0.2 + 0.25) - 0.5; the last 0.1 + 0 - 0.25.
    """
    group = Group.from_arrays(
        outcomes=[1, 0, 0],
        turn_rewards=[[0.5, 0], [0], [0, 0.2, 0.1]],
        continuations=[[[0, 1], [1, 1, 0.25], []], [[0.5]], [[0.5], [], [0.25]]],
    )
    expect(estimator("vine")(group), [[0.75, 0.25], [-0.5], [-0.05, -0.05, -0.15]])
    expect(estimator("vine")(group.select(np.array([True, False, False]))), [[0.75, 0.25]])


def test_nodes_that_follow_each_other_in_a_circle_are_refused():
    circle = Group.from_arrays(outcomes=[1, 0], branches=[["a"], ["b"]], parents=["b", "a"])
    with pytest.raises(CreditError, match="form a circle"):
        estimator("sibling")(circle)


FANS = [(2,), (3,), (4,), (2, 2), (2, 1, 2)]


@pytest.mark.parametrize("fan", FANS, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS_WITH_EVIDENCE.values(), ids=PROBLEMS_WITH_EVIDENCE)
def test_sibling_credit_is_unbiased_wherever_trees_branch(problem, fan):
    grown = trees(problem, fan)
    assert sum(p for p, _ in grown) == pytest.approx(1, abs=1e-12)
    actual = estimated_gradient(problem, estimator("sibling"), fan)
    assert estimator("sibling").bias == "unbiased"
    np.testing.assert_allclose(actual, problem.true_gradient(), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "options", "problem", "fan", "error"),
    [
        ("sibling", {"weigh": "leaves"}, "flip", (2, 2), 0.1429),
        ("sibling", {"alone": "zero"}, "stop_or_go", (2,), 0.3782),
        ("tree", {}, "flip", (2, 2), 1.0216),
        ("tree", {}, "lucky_tool", (3,), 0.9173),
        ("tree", {"shared": "once"}, "flip", (2, 1, 2), 0.5927),
    ],
)
def test_a_biased_form_over_trees_is_as_biased_as_recorded(name, options, problem, fan, error):
    """Pins: distance from the true gradient in units of its length."""
    chosen, true = estimator(name, **options), PROBLEMS_WITH_EVIDENCE[problem].true_gradient()
    assert chosen.bias == "biased"
    actual = estimated_gradient(PROBLEMS_WITH_EVIDENCE[problem], chosen, fan)
    assert np.linalg.norm(actual - true) / np.linalg.norm(true) == pytest.approx(error, abs=1e-4)


def totals(group: Group) -> dict:
    """What each turn of the tree is pushed by in all, however many rows list it."""
    total_of: defaultdict = defaultdict(float)
    for labels, advantages in zip(group.branches, estimator("sibling")(group), strict=True):
        for label, advantage in zip(labels, advantages, strict=True):
            total_of[label] += advantage
    return total_of


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=4), st.integers(-8, 8)), min_size=2, max_size=6
    )
)
def test_complete_and_forked_trajectories_give_every_turn_the_same_gradient(rows):
    """P7: a trajectory that lists only what came after its fork, against one that repeats the beginning."""
    paths = list({tuple(actions): outcome / 8 for actions, outcome in rows}.items())
    paths = [(way, o) for way, o in paths if not any(other[: len(way)] == way and other != way for other, _ in paths)]
    if len(paths) < 2:
        return
    labels = [[way[: k + 1] for k in range(len(way))] for way, _ in paths]
    listed: set = set()
    own, parents = [], []
    for row in labels:
        fresh = [label for label in row if label not in listed]
        own.append(fresh)
        parents.append(row[len(row) - len(fresh) - 1] if len(fresh) < len(row) else None)
        listed.update(fresh)
    outcomes = [outcome for _, outcome in paths]
    whole_totals = totals(Group.from_arrays(outcomes=outcomes, branches=labels))
    forked = totals(Group.from_arrays(outcomes=outcomes, branches=own, parents=parents))
    assert forked == pytest.approx(whole_totals, abs=1e-12)
