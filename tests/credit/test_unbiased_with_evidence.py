"""The bias class of estimators and wrappers that are told more than rewards, by exact sums over every group.

What they are told is wrong on purpose (`mdp_evidence`): potentials, gold answers and shares are arbitrary numbers
of what was known, so that nothing can be unbiased by luck.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from agentgym.credit import estimator
from agentgym.testing.exact.problems import Problem, stop_or_go
from agentgym.testing.exact.signals import PROBLEMS_WITH_EVIDENCE

SIZES = (2, 3, pytest.param(4, marks=pytest.mark.thorough))  # the sum over groups of four takes most of the time
ROOMY = {name: problem for name, problem in PROBLEMS_WITH_EVIDENCE.items() if name != "back_and_forth"}


def error_of(actual: np.ndarray, true: np.ndarray) -> float:
    return float(np.linalg.norm(actual - true) / np.linalg.norm(true))


def angle(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


UNBIASED = [
    ("potential_shaping", {}),
    ("potential_shaping", {"weight": 2.5}),
    ("information_gain", {}),
    ("spa", {}),
    ("spa", {"contribution_weight": 0.5}),
    ("vine", {}),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("problem", PROBLEMS_WITH_EVIDENCE.values(), ids=PROBLEMS_WITH_EVIDENCE)
@pytest.mark.parametrize(("name", "options"), UNBIASED, ids=str)
def test_an_unbiased_estimator_has_the_policy_gradient_as_its_mean_whatever_its_signals(name, options, problem, size):
    chosen = estimator(name, **options)
    assert chosen.bias == "unbiased"
    actual = problem.estimated_gradient(chosen, size)
    np.testing.assert_allclose(actual, problem.true_gradient(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("problem", ROOMY.values(), ids=ROOMY)
@pytest.mark.parametrize("name", ["potential_shaping", "information_gain", "spa", "vine"])
def test_failures_that_the_agent_does_not_cause_leave_it_unbiased(name: str, problem: Problem):
    actual = problem.with_failures(0.2).estimated_gradient(estimator(name), 3)
    np.testing.assert_allclose(actual, problem.true_gradient(), rtol=0, atol=1e-9)


def test_one_continuation_that_was_drawn_at_random_is_enough_for_vine():
    """Every pair of a path and of single returns from its second state on; the expectation is exact all the same."""
    problem = PROBLEMS_WITH_EVIDENCE["flip"]
    later = [(p.probability / 0.5, p.return_from(1)) for p in problem.paths if len(p.steps) > 1]
    drawn = []
    for path in problem.paths:
        for chance, turn_returns in later if len(path.steps) > 1 else [(1.0, 0.0)]:
            continued = [[0.25], [turn_returns], [0.4]][: len(path.steps)]
            signals = {**path.signals, "continuations": continued}
            drawn.append(type(path)(**{**vars(path), "probability": path.probability * chance, "signals": signals}))
    assert sum(p.probability for p in drawn) == pytest.approx(1)
    chosen = estimator("vine")
    total = sum(p.probability * (chosen(_alone(p))[0] @ p.score) for p in drawn)
    np.testing.assert_allclose(total, problem.true_gradient(), rtol=0, atol=1e-9)


def _alone(path):
    from agentgym.credit import Group

    return Group.from_arrays(
        outcomes=[path.outcome], turn_rewards=[path.rewards], continuations=[path.signals["continuations"]]
    )


def test_exact_hindsight_is_exact_where_every_return_can_follow_every_turn():
    """Outcomes alone: 0 and 1 both can follow any turn of the flip problem, so hca is the policy gradient."""
    flip = PROBLEMS_WITH_EVIDENCE["flip"]
    outcome_only = Problem(tuple(type(p)(**{**vars(p), "rewards": (math.nan,) * len(p.rewards)}) for p in flip.paths))
    from agentgym.testing.exact.signals import exact_hindsight

    group = outcome_only.with_signals(hindsight=exact_hindsight(outcome_only))
    np.testing.assert_allclose(
        group.estimated_gradient(estimator("hca"), 2), outcome_only.true_gradient(), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize(
    ("name", "options", "problem", "cosine", "error"),
    [
        ("igpo", {}, "flip", -0.09546, 2.5938),
        ("igpo", {}, "stop_or_go", 0.33653, 1.4678),
        ("igpo", {"scale": "none"}, "flip", -0.17468, 1.6180),
        ("igpo", {"normalise": "separate"}, "stop_or_go", 0.35310, 2.1411),
        ("spa", {"remainder": "none"}, "stop_or_go", 0.16780, 1.2994),
        ("spa", {"grounding_weight": 1.0}, "flip", 0.86619, 2.7116),
        ("potential_shaping", {"gamma": 0.9}, "flip", 0.96717, 0.2928),
        ("information_gain", {"baseline": "mean"}, "flip", 0.99651, 0.3463),
        ("hca", {}, "flip", 0.47059, 0.8828),
        ("trace", {}, "flip", 0.37601, 0.9934),
        ("leave_one_turn_out", {}, "flip", 0.81042, 0.5932),
        ("shapley", {}, "stop_or_go", 0.97875, 0.2055),
        ("hindsight", {}, "stop_or_go", 0.99700, 0.2443),
        ("hcapo", {}, "stop_or_go", 0.99710, 1.3671),
    ],
)
def test_other_estimators_have_the_recorded_bias(name, options, problem, cosine, error):
    """Pins at N = 4, under arbitrary evidence: angle to the true gradient, and distance in units of its length."""
    chosen = estimator(name, **options)
    assert chosen.bias in ("biased", "heuristic")
    actual, true = (
        PROBLEMS_WITH_EVIDENCE[problem].estimated_gradient(chosen, 4),
        PROBLEMS_WITH_EVIDENCE[problem].true_gradient(),
    )
    assert angle(actual, true) == pytest.approx(cosine, abs=1e-5)
    assert error_of(actual, true) == pytest.approx(error, abs=1e-4)


def test_equal_shares_of_the_outcome_are_not_unbiased():
    """o / K knows how long the own trajectory was going to be. With the remainder last, telling nothing is."""
    problem = PROBLEMS_WITH_EVIDENCE["stop_or_go"]
    equal = problem.with_signals(contributions=lambda p: [p.outcome / len(p.steps)] * len(p.steps))
    assert error_of(equal.estimated_gradient(estimator("spa"), 4), problem.true_gradient()) > 0.01


@pytest.mark.parametrize("name", ["potential_shaping", "information_gain", "spa", "vine"])
@pytest.mark.parametrize("size", [2, 4])
def test_unbiased_estimators_have_the_right_sign_on_the_flip_problem(name: str, size: int):
    """P19."""
    assert (PROBLEMS_WITH_EVIDENCE["flip"].estimated_gradient(estimator(name), size) > 0).all()


# Wrappers -----------------------------------------------------------------------------------------------------------


def with_rewards(problem: Problem, change) -> Problem:
    """The problem under another objective: `change(path) -> (outcome, turn rewards)`."""
    paths = []
    for path in problem.paths:
        outcome, rewards = change(path)
        paths.append(type(path)(**{**vars(path), "outcome": outcome, "rewards": tuple(rewards)}))
    return Problem(tuple(paths))


@pytest.mark.parametrize("base", ["rloo", "return_to_go", "mt_grpo"])
@pytest.mark.parametrize("problem", ROOMY.values(), ids=ROOMY)
def test_a_gate_gives_the_gradient_of_the_gated_objective(base: str, problem: Problem):
    gated = with_rewards(problem, lambda p: (p.outcome, [r if p.outcome >= 1 else 0.0 * r for r in p.rewards]))
    actual = problem.estimated_gradient(estimator(f"{base} | gated(threshold=1.0)"), 3)
    np.testing.assert_allclose(actual, gated.true_gradient(), rtol=0, atol=1e-9)


def test_gated_rewards_paid_before_the_gate_is_known_bias_returns_to_go():
    """A pin at N = 3: late turns get nothing for opening the gate to what came before. Whole returns are exact."""
    problem = PROBLEMS_WITH_EVIDENCE["stop_or_go"]
    true = with_rewards(problem, lambda p: (p.outcome, [r if p.outcome >= 1 else 0.0 * r for r in p.rewards]))
    chosen = estimator("return_to_go | gated(paid='turns')")
    assert chosen.bias == "biased"
    assert error_of(problem.estimated_gradient(chosen, 3), true.true_gradient()) == pytest.approx(0.0607, abs=1e-4)
    returns = problem.estimated_gradient(estimator("rloo | gated(paid='turns')"), 3)
    np.testing.assert_allclose(returns, true.true_gradient(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("problem", ROOMY.values(), ids=ROOMY)
def test_levels_give_the_gradient_of_the_gated_objective(problem: Problem):
    """Success above gain above cost: gains need a success, costs need a success and a gain of at least 0.5."""

    def left(path):
        parts, open_ = path.signals["components"], path.outcome >= 1
        gains = np.nansum(parts["gain"]) >= 0.5
        pay = [g * open_ + c * (open_ and gains) for g, c in zip(parts["gain"], parts["cost"], strict=True)]
        return path.outcome, pay

    chosen = estimator("return_to_go | gated(levels={'success': 1.0, 'gain': 0.5, 'cost': 0.0})")
    actual = problem.estimated_gradient(chosen, 3)
    np.testing.assert_allclose(actual, with_rewards(problem, left).true_gradient(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("problem", ROOMY.values(), ids=ROOMY)
def test_calibration_with_weights_from_before_gives_the_gradient_of_the_weighed_objective(problem: Problem):
    def weighed(path):
        parts = path.signals["components"]
        return path.outcome, [2 * g - 0.5 * c for g, c in zip(parts["gain"], parts["cost"], strict=True)]

    chosen = estimator("return_to_go | calibrated(weights={'gain': 2.0, 'cost': -0.5})")
    assert chosen.bias == "unbiased"
    actual = problem.estimated_gradient(chosen, 3)
    np.testing.assert_allclose(actual, with_rewards(problem, weighed).true_gradient(), rtol=0, atol=1e-9)


def sampled_by_an_older_policy(go=(0.7, 0.4, 0.6), older=(0.5, 0.5, 0.3)) -> tuple[Problem, Problem]:
    """stop_or_go as the old policy plays it, with each turn's log ratio to the new one; and as the new one does.

    A turn's probability is 1 - |d log pi / d logit|, since the turns are coin flips.
    """
    new, old = stop_or_go(go=go), stop_or_go(go=older)
    paths = []
    for mine, theirs in zip(new.paths, old.paths, strict=True):
        chances = [1 - abs(p.score.sum(axis=1)) for p in (mine, theirs)]
        logs = [[float(x) / 2, float(x) / 2] for x in np.log(chances[0] / chances[1])]  # of two tokens each
        signals = {**mine.signals, "log_ratios": logs}
        paths.append(type(mine)(**{**vars(mine), "probability": theirs.probability, "signals": signals}))
    return Problem(tuple(paths)), new


@pytest.mark.parametrize("size", SIZES)
def test_the_ratio_of_the_whole_sequence_corrects_exactly(size: int):
    sampled, expected = sampled_by_an_older_policy()
    chosen = estimator("rloo | off_policy(level='sequence', over='sum', high=1e300)")
    np.testing.assert_allclose(sampled.estimated_gradient(chosen, size), expected.true_gradient(), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("older", "plain", "turn", "capped_sequence"),
    [((0.5, 0.5, 0.3), 0.1725, 0.2170, 0.0438), ((0.8, 0.3, 0.7), 0.2069, 0.0975, 0.0)],
)
def test_a_ratio_per_turn_leaves_a_bias_of_its_own(older, plain, turn, capped_sequence):
    """Pins at N = 4. It leaves out which states the old policy met and what it did later: it may help or not."""
    sampled, expected = sampled_by_an_older_policy(older=older)
    texts = (
        "return_to_go",
        "return_to_go | off_policy(over='sum')",
        "return_to_go | off_policy(level='sequence', over='sum')",
    )
    errors = [error_of(sampled.estimated_gradient(estimator(text), 4), expected.true_gradient()) for text in texts]
    assert errors == pytest.approx([plain, turn, capped_sequence], abs=1e-4)
