"""Chains of sub-tasks: rewards by hand, values and noise against sums over all trajectories, and learning."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from agentgym.credit import estimator
from agentgym.errors import CreditError
from agentgym.methods.credit_advice.subtasks import SubtaskChain, gradient, signal_to_noise, steps_to
from agentgym.testing.exact.problems import Problem, ProblemPath

CHANCE = 0.6
RIGHT = np.array([[True, False, True, True]])


@pytest.mark.parametrize(
    ("feedback", "expected"),
    [
        ("outcome", [math.nan] * 4),
        ("dense", [0.25, 0.0, 0.25, 0.25]),
        ("sparse", [0.25, 0.0, 0.25, 0.25]),  # a quarter of four turns is one
        ("delayed", [0.0, 0.25, 0.0, 0.5]),
        ("last", [0.0, 0.0, 0.0, 0.75]),
        ("even", [0.1875] * 4),
        ("wrong", [0.25, 0.25, 0.25, 0.0]),
        ("misleading", [0.25] * 4),
    ],
)
def test_each_feedback_pays_where_it_says(feedback, expected):
    rewards = SubtaskChain(4, 4, feedback).rewards(RIGHT, np.random.default_rng(0))
    np.testing.assert_allclose(rewards, [expected])


def test_sparse_feedback_pays_at_each_quarter():
    right = np.array([[True, True, False, True, True, True, False, False]])
    rewards = SubtaskChain(8, 8, "sparse").rewards(right, np.random.default_rng(0))
    np.testing.assert_allclose(rewards * 8, [[0, 2, 0, 1, 0, 2, 0, 0]])


@pytest.mark.parametrize(("decisive", "expected"), [(1, [0]), (2, [0, 3]), (6, [0, 1, 2, 3, 4, 5])])
def test_decisive_turns_are_spread_evenly_and_the_first_is_one(decisive, expected):
    assert np.flatnonzero(SubtaskChain(6, decisive).decides).tolist() == expected


def exact_problem(chain: SubtaskChain) -> Problem:
    """All trajectories of a chain, with the score of each turn with respect to its own logit."""
    rng, paths = np.random.default_rng(0), []
    for bits in product([False, True], repeat=chain.turns):
        right = np.array([bits])
        rewards = chain.rewards(right, rng)[0]
        probability = math.prod(CHANCE if bit else 1 - CHANCE for bit in bits)
        outcome = float(right[:, chain.decides].all())
        score = np.diag(right[0] - CHANCE)
        steps = tuple(("", str(bit)) for bit in bits)
        paths.append(ProblemPath(probability, outcome, tuple(rewards), score, steps=steps))
    return Problem(tuple(paths))


@pytest.mark.parametrize(
    ("name", "feedback"),
    [("rloo", "dense"), ("rloo", "outcome"), ("return_to_go", "delayed"), ("return_to_go", "wrong"), ("grpo", "dense")],
)
def test_sampled_gradients_have_the_mean_and_the_noise_of_the_sum_over_all_groups(name, feedback):
    chain, estimate = SubtaskChain(3, 3, feedback), estimator(name)
    exact_mean = exact_problem(chain).estimated_gradient(estimate, 3)
    shared_square = sum(
        probability * shared_gradient(estimate, group, paths) ** 2
        for probability, group, paths in exact_problem(chain).groups(3)
    )
    rng, chances = np.random.default_rng(0), np.full(3, CHANCE)
    sampled = np.array([gradient(estimate, chain, chances, 3, rng) for _ in range(1500)])
    error = sampled.std(axis=0, ddof=1) / math.sqrt(len(sampled))
    assert (np.abs(sampled.mean(axis=0) - exact_mean) < 4 * error + 1e-12).all()
    assert float((sampled.sum(axis=1) ** 2).mean()) == pytest.approx(shared_square, rel=0.2)


def shared_gradient(estimate, group, paths):
    """The gradient of one group with respect to a logit that all turns share."""
    rows = zip(estimate(group), paths, strict=True)
    return sum(float(advantages @ path.score.sum(axis=1)) for advantages, path in rows) / len(paths)


@pytest.mark.parametrize("feedback", ["dense", "sparse", "delayed", "outcome", "misleading", "even"])
def test_the_critic_predicts_the_expected_return_of_what_is_still_open(feedback):
    """The values of a group are compared with the mean over all ways to go on."""
    chain, rng, chances = SubtaskChain(4, 2, feedback), np.random.default_rng(1), np.array([0.3, 0.6, 0.8, 0.5])
    right = rng.random((5, 4)) < 0.5
    group = chain.group(right, chances, rng, ["values", "continuations"])
    for row in range(5):
        for k in range(4):
            expected = 0.0
            for later in product([False, True], repeat=4 - k):
                weight = math.prod(c if bit else 1 - c for c, bit in zip(chances[k:], later, strict=True))
                completed = np.array([[*right[row, :k], *later]])
                paid = np.nansum(chain.rewards(completed, rng)[0, k:])
                expected += weight * (paid + float(completed[:, chain.decides].all()))
            assert group.signal("values")[row, k] == pytest.approx(expected)
    assert group.signal("values")[:, -1].tolist() == [0.0] * 5


def test_what_decides_alone_is_learned_and_noise_slows_it_down():
    """With a critic and no trace, the noise of later turns is gone: the ratio grows with the number of turns."""
    long, short = SubtaskChain(16, 16), SubtaskChain(4, 4)
    critic = estimator("turn_gae(lam=0)")
    assert (
        signal_to_noise(critic, long, chance=CHANCE)["shared"]
        > 1.5 * signal_to_noise(critic, short, chance=CHANCE)["shared"]
    )
    assert (
        signal_to_noise(critic, long, chance=CHANCE)["own"]
        > 3 * signal_to_noise(estimator("rloo"), long, chance=CHANCE)["own"]
    )
    quiet = steps_to(0.8, estimator("rloo"), SubtaskChain(8, 8), chance=CHANCE, skills="own", most=200)
    noisy = steps_to(0.8, estimator("rloo"), SubtaskChain(8, 8, noise=1.0), chance=CHANCE, skills="own", most=200)
    assert quiet < noisy


def test_an_outcome_that_never_comes_teaches_nothing():
    outcome, dense = SubtaskChain(32, 32, "outcome"), SubtaskChain(32, 32)
    assert steps_to(0.8, estimator("rloo"), outcome, chance=CHANCE, most=40) == 40
    assert steps_to(0.8, estimator("rloo"), dense, chance=CHANCE, most=40) < 40


def test_a_signal_that_a_chain_lacks_is_named():
    with pytest.raises(CreditError, match="provides no signal gold_logprobs"):
        signal_to_noise(estimator("information_gain"), SubtaskChain(4, 4), chance=CHANCE, groups=2)
