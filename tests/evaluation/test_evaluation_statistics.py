"""The statistics against scipy, against hand arithmetic, and against what they must never do."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from agentgym.errors import EvaluationError
from agentgym.evaluation.comparison import paired
from agentgym.evaluation.statistics.bootstrap import cluster_bootstrap
from agentgym.evaluation.statistics.passes import pass_at_k, pass_hat_k
from agentgym.evaluation.statistics.permutation import sign_test
from agentgym.evaluation.statistics.proportion import success_rate, wilson


@given(n=st.integers(1, 500), data=st.data(), level=st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_agrees_with_scipy(n, data, level):
    k = data.draw(st.integers(0, n))
    want = stats.binomtest(k, n).proportion_ci(level, method="wilson")
    got = wilson(k, n, level=level)
    assert got.low == pytest.approx(want.low, abs=1e-12)
    assert got.high == pytest.approx(want.high, abs=1e-12)
    assert got.low <= got.value <= got.high


def test_wilson_of_8_of_10_by_hand():
    """z^2 = 3.8415: centre (0.8 + 0.19207) / 1.38415 = 0.71673, half-width 0.22660."""
    got = wilson(8, 10)
    assert (got.low, got.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)


def test_wilson_still_has_width_when_every_trial_succeeds():
    assert wilson(20, 20).high == 1.0
    assert wilson(20, 20).low == pytest.approx(20 / (20 + 3.841459), abs=1e-6)


@given(better=st.integers(0, 60), worse=st.integers(0, 60))
def test_the_sign_test_agrees_with_scipy(better, worse):
    want = stats.binomtest(better, better + worse).pvalue if better + worse else 1.0
    assert sign_test(better, worse) == pytest.approx(want, rel=1e-9)


def test_the_cluster_bootstrap_agrees_with_scipys():
    rng = np.random.default_rng(3)
    outcomes = [list((rng.random(4) < p).astype(float)) for p in rng.random(120)]
    means = np.array([np.mean(o) for o in outcomes])
    want = stats.bootstrap(
        (means,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    got = cluster_bootstrap(outcomes, resamples=10_000)
    assert got.value == pytest.approx(means.mean())
    assert (got.low, got.high) == pytest.approx((want.low, want.high), abs=0.004)


def test_samples_of_one_task_are_not_independent_draws():
    """Forty tasks whose eight samples always agree know no more than forty single samples."""
    alike = [[float(i % 2)] * 8 for i in range(40)]
    as_if_independent = wilson(160, 320)
    got = success_rate(alike)
    assert got.method == "cluster wilson"
    assert got.high - got.low > 2 * (as_if_independent.high - as_if_independent.low)


def test_the_cluster_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for trial in range(300):
        chances = rng.beta(0.6, 0.6, size=60)  # mean 0.5
        outcomes = [list((rng.random(3) < p).astype(float)) for p in chances]
        interval = cluster_bootstrap(outcomes, resamples=400, seed=trial)
        hits += interval.low <= 0.5 <= interval.high
    assert 0.91 <= hits / 300 <= 0.985


@given(n=st.integers(1, 9), data=st.data())
def test_pass_at_k_and_pass_hat_k_equal_counting_all_subsets(n, data):
    c = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    samples = [1] * c + [0] * (n - c)
    subsets = list(itertools.combinations(samples, k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
    assert pass_hat_k(n, c, k) == pytest.approx(sum(map(all, subsets)) / len(subsets))


def test_pass_at_k_does_not_overflow_for_many_samples():
    assert pass_at_k(100_000, 10, 1000) == pytest.approx(1 - math.comb(99_990, 1000) / math.comb(100_000, 1000))


def test_pass_at_k_refuses_more_samples_than_there_are():
    with pytest.raises(EvaluationError, match="at least k samples"):
        pass_at_k(4, 1, 5)


def test_pairing_sees_a_small_gain_that_two_separate_intervals_hide():
    """Ten of a hundred tasks are newly solved and none is lost: p = 2 / 2^10."""
    before = [[float(i < 50)] for i in range(100)]
    after = [[float(i < 60)] for i in range(100)]
    got = paired(before, after)
    assert got.significant
    assert (got.better, got.worse, got.same) == (10, 0, 90)
    assert got.p_value == pytest.approx(2 / 1024)
    assert success_rate(before).high > success_rate(after).low  # unpaired, nothing could be said


def test_a_change_that_is_noise_does_not_come_out_significant():
    rng = np.random.default_rng(5)
    alarms = 0
    for trial in range(200):
        before = [[float(x)] for x in rng.random(80) < 0.5]
        after = [[float(x)] for x in rng.random(80) < 0.5]
        alarms += paired(before, after, resamples=400, seed=trial).significant
    assert alarms <= 20  # 5 % of 200 is 10


def test_an_agent_compared_with_itself_gains_nothing():
    outcomes = [[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    got = paired(outcomes, outcomes)
    assert got.difference.value == 0.0
    assert not got.significant
    assert got.p_value == 1.0


def test_a_change_that_is_the_same_everywhere_still_gets_a_width():
    """Ten of ten tasks newly solved: Wilson's lower end for 10 of 10 is 0.7225, so at worst 0.7225 - 0.2775."""
    got = paired([[0.0]] * 10, [[1.0]] * 10).difference
    assert (got.low, got.high) == pytest.approx((0.4450, 1.0), abs=1e-4)
    unchanged = paired([[1.0]] * 10, [[1.0]] * 10).difference
    assert (unchanged.low, unchanged.high) == pytest.approx((-0.2775, 0.2775), abs=1e-4)


def test_certain_success_everywhere_still_gets_an_honest_interval():
    got = success_rate([[1.0, 1.0]] * 10)
    assert got.value == 1.0
    assert got.low == pytest.approx(wilson(10, 10).low)


def test_no_task_at_all_is_no_data_and_not_zero():
    assert math.isnan(success_rate([]).value)
    assert success_rate([]).percent() == "no data"


def test_equal_seeds_give_equal_intervals():
    outcomes = [[i / 30] for i in range(30)]
    assert cluster_bootstrap(outcomes, seed=4) == cluster_bootstrap(outcomes, seed=4)
    assert cluster_bootstrap(outcomes, seed=4) != cluster_bootstrap(outcomes, seed=5)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: wilson(3, 2), "0 <= successes <= n"),
        (lambda: wilson(1, 2, level=95), "between 0 and 1"),
        (lambda: paired([[1.0]], [[1.0], [0.0]]), "same tasks"),
        (lambda: cluster_bootstrap([[1.0], []]), "Task number 1 has no sample"),
        (lambda: cluster_bootstrap([[math.nan]]), "not a finite number"),
        (lambda: cluster_bootstrap([[1.0]], resamples=0), "at least 1"),
        (lambda: sign_test(-1, 2), "at least 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_by_name(call, text):
    with pytest.raises(EvaluationError, match=text):
        call()
