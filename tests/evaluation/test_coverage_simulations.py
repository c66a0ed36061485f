"""Simulated evaluations: intervals cover what they promise, and equal agents are seldom told apart. Fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from agentgym.evaluation.comparison import paired
from agentgym.evaluation.statistics.adaptive_stopping import adastop
from agentgym.evaluation.statistics.bootstrap import mean_interval
from agentgym.evaluation.statistics.permutation import sign_flip_test
from agentgym.evaluation.statistics.power import power_of
from agentgym.evaluation.statistics.power import tasks_needed as needed
from agentgym.evaluation.statistics.proportion import success_rate
from agentgym.evaluation.statistics.score import score_interval

SIMULATED = 2000


def simulate(rng, n: int, k: int) -> tuple[float, np.ndarray]:
    """The true success rate and [tasks, samples] verdicts: tasks differ, by a beta of some width."""
    rate, width = rng.uniform(0.1, 0.9), np.exp(rng.uniform(np.log(0.5), np.log(8.0)))
    chances = rng.beta(rate * width, (1 - rate) * width, n)
    return rate, (rng.random((n, k)) < chances[:, None]).astype(float)


@pytest.mark.parametrize("n", [20, pytest.param(100, marks=pytest.mark.thorough), 500])
@pytest.mark.parametrize("k", [1, *(pytest.param(k, marks=pytest.mark.thorough) for k in (2, 4)), 8])
def test_a_95_percent_interval_covers_the_truth_94_to_96_percent_of_the_time(n, k):
    """2,000 evaluations each; the simulation's own standard error is 0.5 points; 20 tasks get a little more."""
    rng, hits = np.random.default_rng(1000 * n + k), 0
    for _ in range(SIMULATED):
        rate, verdicts = simulate(rng, n, k)
        got = success_rate(verdicts.tolist())
        hits += got.low <= rate <= got.high
    assert 0.94 <= hits / SIMULATED <= (0.97 if n == 20 else 0.96)


@pytest.mark.parametrize("n", [10, 15, 20, 50])
def test_one_sample_rates_of_rare_tasks_are_covered_93_percent_of_the_time(n):
    """Exact, by summing the binomial distribution: at every true rate up to 10 %, and as often at its mirror image."""
    for rate in np.linspace(0.002, 0.1, 50):
        for true_rate in (rate, 1 - rate):
            solved = np.arange(n + 1)
            limits = [success_rate([[1.0]] * int(x) + [[0.0]] * int(n - x)) for x in solved]
            covered = [e.low <= true_rate <= e.high for e in limits]
            assert stats.binom.pmf(solved, n, true_rate)[covered].sum() >= 0.93


@pytest.mark.parametrize(("rate", "later"), [(0.03, 0.03), (0.01, 0.03), (0.01, 0.06), (0.97, 0.99)])
def test_the_paired_interval_of_20_rare_tasks_covers_the_gain_93_percent_of_the_time(rate, later):
    """Exact, over the tasks won and lost. The bootstrap covers 87 % from 1 to 3 %."""
    n, won, lost = 20, later * (1 - rate), rate * (1 - later)
    chances = {
        (up, down): stats.multinomial.pmf([up, down, n - up - down], n, [won, lost, 1 - won - lost])
        for up in range(7)
        for down in range(7)
    }
    covered = 0.0
    for (up, down), chance in chances.items():
        if chance > 1e-4:
            got = score_interval(np.array([1.0] * up + [-1.0] * down + [0.0] * (n - up - down)), -1.0, 1.0)
            covered += chance * (got.low <= later - rate <= got.high)
    assert covered >= 0.93


@pytest.mark.parametrize(("n", "k"), [(20, 4), (50, 8)])
@pytest.mark.thorough
def test_gains_and_rates_of_a_few_uneven_rare_tasks_are_covered_93_percent_of_the_time(n, k):
    """3 to 10 % success in tasks of which most are never solved. Of 800 simulations 94.8 % and more were covered."""
    rng, gains, rates = np.random.default_rng(11), [], []
    for _ in range(250):
        before, after = rng.binomial(k, rng.beta(0.015, 0.485, n)), rng.binomial(k, rng.beta(0.05, 0.45, n))
        gain = paired((before / k)[:, None].tolist(), (after / k)[:, None].tolist(), resamples=300).difference
        gains.append(gain.low <= 0.07 <= gain.high)
        rate = success_rate([[1.0] * int(x) + [0.0] * int(k - x) for x in after])
        rates.append(rate.low <= 0.1 <= rate.high)
    assert np.mean(gains) >= 0.93
    assert np.mean(rates) >= 0.93


@pytest.mark.parametrize("n", [20, pytest.param(100, marks=pytest.mark.thorough)])
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


@pytest.mark.parametrize(
    ("n", "k"),
    [
        (20, 1),
        pytest.param(20, 4, marks=pytest.mark.thorough),
        (100, 2),
        pytest.param(500, 1, marks=pytest.mark.thorough),
    ],
)
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
