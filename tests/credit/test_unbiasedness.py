"""The bias class each estimator declares, by exact sums over every possible group of small decision problems."""

from __future__ import annotations

import numpy as np
import pytest
from credit_cases import angle, make

from agentgym.testing.exact.problems import Problem, flip, lucky_tool, stop_or_go

PROBLEMS = {"flip": flip(), "stop_or_go": stop_or_go(), "lucky_tool": lucky_tool()}
SIZES = (2, 3, 4)


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_probabilities_of_all_paths_sum_to_one(problem: Problem):
    """Else none of the sums below is an expectation. The score of a policy has mean 0."""
    assert sum(p.probability for p in problem.paths) == pytest.approx(1, abs=1e-15)
    mean_score = sum(p.probability * p.score.sum(axis=0) for p in problem.paths)
    np.testing.assert_allclose(mean_score, 0, atol=1e-15)


def test_the_true_gradient_of_the_flip_problem_is_the_one_worked_out_by_hand():
    """0.25 * (0.65 - 0.5) for turn 1; for turn 2, reached half the time: 0.5 * 0.25 * (0.9 - 0.4)."""
    np.testing.assert_allclose(PROBLEMS["flip"].true_gradient(), [0.0375, 0.0625], atol=1e-15)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("name", ["rloo", "return_to_go", "mt_grpo"])
def test_an_unbiased_estimator_has_the_policy_gradient_as_its_mean(name: str, problem: Problem, size: int):
    chosen = make(name)
    assert chosen.bias == "unbiased"
    actual = problem.estimated_gradient(chosen, size)
    np.testing.assert_allclose(actual, problem.true_gradient(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("name", ["rloo", "return_to_go", "mt_grpo"])
def test_failures_that_the_agent_does_not_cause_leave_an_unbiased_estimator_unbiased(name: str, problem: Problem):
    """Dropping every fifth episode at random, given that two are left, changes noise and not the mean."""
    broken = problem.with_failures(0.2)
    actual = broken.estimated_gradient(make(name), 3)
    np.testing.assert_allclose(actual, problem.true_gradient(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize(("name", "options"), [("dr_grpo", {}), ("mt_grpo", {"baseline": "mean"})])
def test_a_mean_that_includes_the_own_trajectory_shrinks_the_gradient_by_exactly_one_nth(name, options, problem, size):
    chosen = make(name, **options)
    assert chosen.bias == "direction"
    actual = problem.estimated_gradient(chosen, size)
    np.testing.assert_allclose(actual, (1 - 1 / size) * problem.true_gradient(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_grpo_keeps_the_direction_where_returns_take_two_values(problem: Problem, size: int):
    """turn_weight 0 leaves outcomes of 0 and 1: A depends on the number of successes alone."""
    actual = problem.estimated_gradient(make("grpo", turn_weight=0.0), size)
    outcome_only = make("rloo", turn_weight=0.0)
    assert make("grpo").bias == "direction"
    assert angle(actual, problem.estimated_gradient(outcome_only, size)) == pytest.approx(1, abs=1e-12)


def test_grpo_can_point_the_wrong_way_where_returns_are_graded():
    """A pin. The tool pays 1 with 0.3, else -0.2: worth trying (0.16 on average), but it loses most duels.

    In groups of two only the sign of the difference is left, and in groups of four most of the size.
    """
    problem = PROBLEMS["lucky_tool"]
    true = problem.true_gradient()
    assert angle(problem.estimated_gradient(make("grpo"), 2), true) == pytest.approx(-0.82094, abs=1e-5)
    assert angle(problem.estimated_gradient(make("grpo"), 4), true) == pytest.approx(0.96773, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "problem", "cosine", "error"),
    [
        ("return_to_go", {"scale": "std"}, "flip", 0.99987, 0.8285),
        ("return_to_go", {"scale": "std"}, "lucky_tool", 0.99604, 0.6237),
        ("return_to_go", {"baseline": "mean"}, "flip", 0.99651, 0.3463),
        ("return_to_go", {"gamma": 0.9}, "flip", 0.96717, 0.2928),
        ("mt_grpo", {"scale": "std"}, "flip", 0.99071, 3.1909),
        ("mt_grpo", {"scale": "std"}, "lucky_tool", 0.52939, 0.9273),
        ("mt_grpo_reach", {}, "stop_or_go", 0.90284, 0.5440),
    ],
)
def test_a_biased_form_has_the_recorded_bias(name, options, problem, cosine, error):
    """Pins at N = 4: angle to the true gradient, and distance from it in units of its length."""
    chosen = make(name, **options)
    assert chosen.bias == "biased"
    actual, true = PROBLEMS[problem].estimated_gradient(chosen, 4), PROBLEMS[problem].true_gradient()
    assert angle(actual, true) == pytest.approx(cosine, abs=1e-5)
    assert np.linalg.norm(actual - true) / np.linalg.norm(true) == pytest.approx(error, abs=1e-4)


@pytest.mark.parametrize("size", [*SIZES, 8])
def test_comparing_only_those_that_reached_a_turn_flips_the_sign_of_going_on(size: int):
    """The search at turn 1 leads to 0.25 of later turn reward on average, which reach-only centring takes away.

    0.0375 - 0.5 * 0.5 * 0.25 = -0.0250, for any group size.
    """
    reach = make("mt_grpo_reach", baseline="loo", scale="none")
    actual = PROBLEMS["flip"].estimated_gradient(reach, size)
    assert actual[0] == pytest.approx(-0.0250, abs=1e-9)
    assert PROBLEMS["flip"].estimated_gradient(make("mt_grpo_reach"), size)[0] < 0


@pytest.mark.parametrize("name", ["rloo", "return_to_go", "mt_grpo", "dr_grpo", "grpo"])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_every_recommended_estimator_has_the_right_sign_on_the_flip_problem(name: str, size: int):
    assert (PROBLEMS["flip"].estimated_gradient(make(name), size) > 0).all()


def test_a_baseline_of_zero_in_place_of_the_fallback_is_biased():
    """What the fallback of return_to_go is for: without it, turns that one trajectory alone reached get 0."""
    problem, size, chosen = PROBLEMS["stop_or_go"], 4, make("return_to_go")
    total = np.zeros(3)
    for probability, group, paths in problem.groups(size):
        alone = group.turn_mask.sum(axis=0) == 1
        for path, advantages in zip(paths, chosen(group), strict=True):
            total += probability / size * (np.where(alone[: len(advantages)], 0, advantages) @ path.score)
    true = problem.true_gradient()
    assert np.linalg.norm(total - true) / np.linalg.norm(true) > 0.01
