"""Every statistic that scipy, statsmodels or rliable also has gives their value; the rest, arithmetic by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rliable import metrics as rliable  # installed without its dependencies, by `make setup`
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import NormalIndPower
from statsmodels.stats.proportion import proportion_confint

from agentgym.errors import EvaluationError
from agentgym.evaluation.statistics.adaptive_stopping import adastop
from agentgym.evaluation.statistics.aggregate import (
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    stratified_bootstrap,
)
from agentgym.evaluation.statistics.bootstrap import mean_interval
from agentgym.evaluation.statistics.passes import pass_curve
from agentgym.evaluation.statistics.permutation import holm, mcnemar, sign_flip_test, sign_test
from agentgym.evaluation.statistics.power import power_of, tasks_needed
from agentgym.evaluation.statistics.proportion import solved_within, success_rate, wilson
from agentgym.evaluation.statistics.quantiles import gamma_quantile, t_quantile
from agentgym.evaluation.statistics.score import score_interval


@settings(deadline=None, max_examples=60)
@given(n=st.integers(1, 3000), data=st.data())
def test_wilson_agrees_with_statsmodels(n, data):
    k = data.draw(st.integers(0, n))
    low, high = proportion_confint(k, n, method="wilson")
    assert (wilson(k, n).low, wilson(k, n).high) == pytest.approx((low, high), abs=1e-10)


@settings(deadline=None, max_examples=60)
@given(df=st.integers(1, 100_000), p=st.floats(0.001, 0.9995))
def test_the_t_quantile_agrees_with_scipy(df, p):
    assert t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-6, abs=1e-7)


@settings(deadline=None, max_examples=60)
@given(shape=st.floats(0.05, 20), p=st.floats(0.001, 0.999))
def test_the_gamma_quantile_agrees_with_scipy(shape, p):
    assert gamma_quantile(p, shape) == pytest.approx(stats.gamma.ppf(p, shape), rel=1e-6, abs=1e-9)


@settings(deadline=None, max_examples=20)
@given(n=st.integers(1, 40), data=st.data())
def test_the_score_interval_of_verdicts_is_wilsons(n, data):
    solved = data.draw(st.integers(0, n))
    got = score_interval(np.array([1.0] * solved + [0.0] * (n - solved)), 0.0, 1.0)
    assert (got.low, got.high) == pytest.approx(proportion_confint(solved, n, method="wilson"), abs=1e-7)


@settings(deadline=None, max_examples=20)
@given(won=st.integers(0, 8), lost=st.integers(0, 8), same=st.integers(0, 30))
def test_the_score_interval_of_paired_verdicts_is_tangos(won, lost, same):
    """At either end Tango's statistic, with his closed form of the restricted estimate, is the normal quantile."""
    n = won + lost + same
    assume(n)
    got = score_interval(np.array([1.0] * won + [-1.0] * lost + [0.0] * same), -1.0, 1.0)
    for gain in (got.low, got.high):
        b = -won - lost + (2 * n - won + lost) * gain
        q = (math.sqrt(max(0.0, b * b + 8 * n * lost * gain * (1 - gain))) - b) / (4 * n)  # chance of a loss
        variance = n * (2 * q + gain * (1 - gain))
        if abs(gain) < 1 - 1e-6:
            assert abs(won - lost - n * gain) / math.sqrt(variance) == pytest.approx(1.959964, rel=1e-4)


@settings(deadline=None, max_examples=60)
@given(p=st.lists(st.floats(0, 1), max_size=12))
def test_holm_agrees_with_statsmodels(p):
    want = multipletests(p, method="holm")[1] if p else []
    assert holm(p) == pytest.approx(list(want), abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(verdicts=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=80))
def test_mcnemar_agrees_with_statsmodels(verdicts):
    before, after = (np.array(side, bool) for side in zip(*verdicts, strict=True))
    table = [
        [int((before & after).sum()), int((before & ~after).sum())],
        [int((~before & after).sum()), int((~before & ~after).sum())],
    ]
    assert mcnemar(before, after) == pytest.approx(reference_mcnemar(table, exact=True).pvalue, abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(data=st.lists(st.integers(-4, 4), min_size=2, max_size=10))
def test_the_sign_flip_test_counts_every_pattern_as_scipys_permutation_test_does(data):
    delta = np.array(data) / 4
    got = sign_flip_test(delta)
    sums = [
        abs(sum(s * d for s, d in zip(signs, data, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(data))
    ]
    assert got == pytest.approx(np.mean([total >= abs(sum(data)) for total in sums]))
    if delta.any():
        want = stats.permutation_test((delta,), np.sum, permutation_type="samples", n_resamples=np.inf).pvalue
        assert got == pytest.approx(min(1.0, want), abs=1e-9)


def test_the_sign_flip_test_of_scores_without_a_common_denominator_agrees_with_scipy():
    delta = np.random.default_rng(0).normal(0.15, 0.5, 14)
    want = stats.permutation_test((delta,), np.sum, permutation_type="samples", n_resamples=np.inf).pvalue
    assert sign_flip_test(delta, resamples=100_000) == pytest.approx(want, abs=0.005)


@settings(deadline=None, max_examples=60)
@given(better=st.integers(0, 30), worse=st.integers(0, 30), same=st.integers(0, 5))
def test_with_one_verdict_a_task_the_sign_flip_test_is_mcnemars(better, worse, same):
    delta = np.array([1.0] * better + [-1.0] * worse + [0.0] * same)
    assert sign_flip_test(delta) == pytest.approx(sign_test(better, worse), rel=1e-9)


def test_the_needed_tasks_agree_with_statsmodels_for_unpaired_samples():
    """agreement 0 and equal tasks: two independent proportions; statsmodels wants the effect over the pooled spread."""
    sigma = math.sqrt((0.5 * 0.5 + 0.53 * 0.47) / 2)
    want = NormalIndPower().solve_power(0.03 / sigma, alpha=0.05, power=0.8)
    assert tasks_needed(0.03, rate=0.5, spread=0.0, agreement=0.0) == pytest.approx(want, abs=2)
    assert power_of(1000, 0.03, rate=0.5, spread=0.0, agreement=0.0) == pytest.approx(
        NormalIndPower().power(0.03 / sigma, 1000, 0.05), abs=1e-6
    )


def test_the_needed_tasks_by_hand():
    """sigma^2 = 1/2 (.25 + .2491) (1 - .5) + 1/2 (.25 + .2491) / 4 = .1248 + .0624; x 7.849 / .0009 = 1632."""
    assert tasks_needed(0.03, samples=4) == pytest.approx(1632, abs=2)
    assert tasks_needed(0.03, samples=1) > tasks_needed(0.03, samples=4) > tasks_needed(0.06, samples=4)


@settings(deadline=None, max_examples=60)
@given(runs=st.integers(1, 6), tasks=st.integers(1, 9), seed=st.integers(0, 99))
def test_the_interquartile_mean_is_that_of_rliable(runs, tasks, seed):
    scores = np.random.default_rng(seed).random((runs, tasks))
    assert interquartile_mean(scores) == pytest.approx(rliable.aggregate_iqm(scores), abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(n=st.integers(1, 6), m=st.integers(1, 6), seed=st.integers(0, 99))
def test_the_probability_of_improvement_is_that_of_rliable(n, m, seed):
    rng = np.random.default_rng(seed)
    ours, theirs = rng.integers(0, 4, (n, 3)) / 4, rng.integers(0, 4, (m, 3)) / 4
    assert probability_of_improvement(ours, theirs) == pytest.approx(rliable.probability_of_improvement(ours, theirs))


def test_the_performance_profile_by_hand():
    """Scores 0, .25, .5, 1: three are above 0, two above .25, one above .5, none above 1."""
    got = performance_profile(np.array([[0.0, 0.25], [0.5, 1.0]]), [-0.1, 0.0, 0.25, 0.5, 1.0])
    assert got.tolist() == [1.0, 0.75, 0.5, 0.25, 0.0]


def test_the_stratified_bootstrap_of_the_mean_is_about_the_normal_interval_of_the_runs():
    scores = np.random.default_rng(3).normal(0.5, 0.2, (20, 10))
    got = stratified_bootstrap(lambda s: float(s.mean()), scores)
    half = 1.96 * math.sqrt(sum(scores[:, t].var(ddof=0) / 20 for t in range(10))) / 10
    assert (got.low, got.high) == pytest.approx((scores.mean() - half, scores.mean() + half), abs=0.004)


def test_the_expanded_bootstrap_of_a_mean_is_about_students_interval():
    values = np.random.default_rng(1).normal(0.0, 1.0, 20)
    got = mean_interval(values, resamples=50_000)
    want = stats.t.interval(0.95, 19, values.mean(), stats.sem(values))
    assert (got.low, got.high) == pytest.approx(want, abs=0.05)


def test_pass_curves_carry_intervals_and_begin_at_the_success_rate():
    rng = np.random.default_rng(0)
    outcomes = [list((rng.random(4) < p).astype(float)) for p in rng.random(50)]
    luck, reliability = pass_curve(outcomes), pass_curve(outcomes, all_of_them=True)
    assert list(luck) == [1, 2, 4]
    assert luck[1] == reliability[1] == success_rate(outcomes)
    assert luck[1].value < luck[2].value < luck[4].value
    assert reliability[1].value > reliability[2].value > reliability[4].value
    assert all(e.low < e.value < e.high for e in (*luck.values(), *reliability.values()))
    assert pass_curve([[1.0, 1.0]] * 30)[2].low == wilson(30, 30).low  # certain success still has a width


def test_a_tighter_budget_counts_only_what_kept_to_it():
    """Solved in 2, 5 and 9 turns, and one unsolved: 1/4 within 2, 2/4 within 6, 3/4 within 9."""
    got = solved_within([[1.0], [1.0], [1.0], [0.0]], [[2], [5], [9], [1]], [2, 6, 9])
    assert [e.value for e in got.values()] == [0.25, 0.5, 0.75]
    with pytest.raises(EvaluationError, match="one number for every sample"):
        solved_within([[1.0]], [[2, 3]], [2])


def test_adastop_decides_a_clear_pair_early_and_asks_for_seeds_where_it_is_not_clear():
    ours, theirs = [-1.0, -0.5, 0.0, 0.2, 0.6, 1.0], [-0.9, -0.6, 0.1, 0.3, 0.5, 0.9]
    scores = {"old": [ours], "new": [[4 + score for score in ours]], "same": [theirs]}
    decisions = {(d.first, d.second): d for d in adastop(scores, interims=4)}
    assert decisions["old", "new"].verdict == "worse"
    assert decisions["new", "same"].verdict == "better"
    assert decisions["old", "new"].interim == decisions["new", "same"].interim == 1
    assert decisions["old", "same"].verdict == "more seeds"
    scores |= {"old": [ours, theirs, ours, theirs], "same": [theirs, ours, theirs, ours]}
    decisions = {(d.first, d.second): d for d in adastop(scores, interims=4)}  # `new` need not go on
    assert decisions["old", "same"].verdict == "equal"
    assert decisions["old", "new"].verdict == "worse"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: adastop({"a": [[1.0, 2.0]]}, interims=2), "at least two agents"),
        (lambda: adastop({"a": [[1.0]], "b": [[1.0]]}, interims=2), "at least 2"),
        (
            lambda: adastop({"a": [[1.0, 2.0]] * 3, "b": [[1.0, 2.0]] * 3}, interims=2),
            "must be at least 3",
        ),
        (lambda: holm([0.5, 1.5]), "from 0 to 1"),
        (lambda: interquartile_mean(np.zeros(3)), "give finite numbers of shape"),
        (lambda: probability_of_improvement(np.zeros((1, 2)), np.zeros((1, 3))), "the same tasks"),
        (lambda: tasks_needed(0.0), "and a gain must not be 0"),
        (lambda: tasks_needed(0.1, rate=0.95), "between 0 and 1"),
        (lambda: tasks_needed(0.1, samples=0), "at least 1"),
        (lambda: power_of(0, 0.1), "at least 1"),
        (lambda: pass_curve([[1.0]], [2]), "at least k samples"),
        (lambda: mcnemar(np.zeros(2, bool), np.zeros(3, bool)), "the same tasks"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_was_expected(call, text):
    with pytest.raises(EvaluationError, match=text):
        call()
