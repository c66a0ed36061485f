"""Simulated evaluations: intervals cover what they promise, and equal agents are seldom told apart. Fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest

from agentgym.evaluation.statistics import adastop, mean_interval, paired, power_of, sign_flip_test, success_rate
from agentgym.evaluation.statistics import tasks_needed as needed

SIMULATED = 2000


def simulate(rng, n: int, k: int) -> tuple[float, np.ndarray]:
    """The true success rate and [tasks, samples] verdicts: tasks differ, by a beta of some width."""
    rate, width = rng.uniform(0.1, 0.9), np.exp(rng.uniform(np.log(0.5), np.log(8.0)))
    chances = rng.beta(rate * width, (1 - rate) * width, n)
    return rate, (rng.random((n, k)) < chances[:, None]).astype(float)


@pytest.mark.parametrize("n", [20, 100, 500])
@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_a_95_percent_interval_covers_the_truth_94_to_96_percent_of_the_time(n, k):
    """2,000 evaluations each; the simulation's own standard error is 0.5 points."""
    rng, hits = np.random.default_rng(1000 * n + k), 0
    for _ in range(SIMULATED):
        rate, verdicts = simulate(rng, n, k)
        got = success_rate(verdicts.tolist())
        hits += got.low <= rate <= got.high
    assert 0.94 <= hits / SIMULATED <= 0.96


@pytest.mark.parametrize("n", [20, 100])
def test_the_paired_interval_covers_the_true_gain(n):
    rng, hits = np.random.default_rng(n), 0
    for _ in range(SIMULATED):
        rate, gain = rng.uniform(0.2, 0.5), rng.uniform(0.0, 0.3)
        chances = rng.beta(2 * rate, 2 * (1 - rate), n)
        later = chances + gain * (1 - chances)  # some of what was not solved is: the mean gain is gain (1 - rate)
        before, after = rng.binomial(4, chances) / 4, rng.binomial(4, later) / 4
        got = mean_interval(after - before, resamples=1000, seed=1)
        hits += got.low <= gain * (1 - rate) <= got.high
    assert 0.935 <= hits / SIMULATED <= 0.965


@pytest.mark.parametrize(("n", "k"), [(20, 1), (20, 4), (100, 2), (500, 1)])
def test_two_equal_agents_are_told_apart_at_most_once_in_twenty(n, k):
    rng, alarms, significant = np.random.default_rng(10 * n + k), 0, 0
    for trial in range(SIMULATED):
        rate = rng.uniform(0.1, 0.9)
        chances = rng.beta(rate, 1 - rate, n)
        before, after = rng.binomial(k, chances) / k, rng.binomial(k, chances) / k
        alarms += sign_flip_test(after - before) <= 0.05
        if trial % 10 == 0:
            significant += paired(before[:, None].tolist(), after[:, None].tolist(), resamples=500).significant
    assert alarms / SIMULATED <= 0.05
    assert significant / (SIMULATED / 10) <= 0.06


def test_as_many_tasks_as_power_asks_for_find_the_gain_as_often_as_it_says():
    """10 points, tasks of equal difficulty: simulated power within 3 points of the formula's 80 %."""
    n = needed(0.1, rate=0.5, spread=0.0)
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(1000):
        delta = (rng.random(n) < 0.6).astype(float) - (rng.random(n) < 0.5)
        hits += abs(delta.mean()) > 1.959964 * delta.std(ddof=1) / np.sqrt(n)
    assert hits / 1000 == pytest.approx(0.8, abs=0.035)
    assert power_of(n, 0.1, rate=0.5, spread=0.0) == pytest.approx(0.8, abs=0.005)


def test_adastop_tells_three_equal_agents_apart_at_most_once_in_twenty_runs():
    rng, false = np.random.default_rng(2), 0
    for trial in range(300):
        scores = {name: rng.normal(size=(3, 4)).tolist() for name in "abc"}
        decisions = adastop(scores, interims=3, permutations=400, seed=trial)
        false += any(decision.verdict in ("better", "worse") for decision in decisions)
    assert false / 300 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 300)
