"""Properties of every estimator over random groups: random sizes, lengths, missing rewards, failures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from credit_cases import ROWS, amount, few, group_of, identical, make, same, turn_reward
from hypothesis import example, given
from hypothesis import strategies as st

from agentgym.credit import Group

FORMS = [
    ("grpo", {}),
    ("grpo", {"ddof": 0}),
    ("dr_grpo", {}),
    ("rloo", {}),
    ("rloo", {"turn_weight": 0.0}),
    ("return_to_go", {}),
    ("return_to_go", {"gamma": 0.9}),
    ("return_to_go", {"baseline": "mean"}),
    ("return_to_go", {"scale": "std"}),
    ("mt_grpo", {}),
    ("mt_grpo", {"baseline": "mean"}),
    ("mt_grpo", {"scale": "std"}),
    ("mt_grpo_reach", {}),
    ("mt_grpo_reach", {"scale": "none", "baseline": "loo"}),
]
every_form = pytest.mark.parametrize(
    "chosen",
    [make(n, **o) for n, o in FORMS],
    ids=[" ".join([n, *(f"{k}={v}" for k, v in o.items())]) for n, o in FORMS],
)


@every_form
@few
@given(rows=ROWS, order=st.randoms(use_true_random=False))
def test_the_order_of_trajectories_does_not_matter(chosen, rows, order):
    """P1."""
    positions = list(range(len(rows)))
    order.shuffle(positions)
    actual = chosen(group_of([rows[p] for p in positions]))
    same(actual, [chosen(group_of(rows))[p] for p in positions])


@every_form
@few
@given(rows=ROWS, shift=amount)
def test_an_outcome_that_all_get_changes_nothing(chosen, rows, shift):
    """P3. With a discount it does, since trajectories of different length discount it differently."""
    if chosen.options.get("gamma", 1.0) < 1:
        return
    shifted = [(o + shift, r) for o, r in rows]
    same(chosen(group_of(shifted)), chosen(group_of(rows)), tolerance=1e-9)


@every_form
@few
@given(rows=ROWS, factor=st.sampled_from([0.5, 2.0, 16.0]))
def test_larger_rewards_scale_advantages_or_leave_them(chosen, rows, factor):
    """P4: equivariant in reward units; invariant in standard deviations, but for the epsilon of 1e-6."""
    scaled = chosen(group_of([(factor * o, [factor * x for x in r]) for o, r in rows]))
    base = chosen(group_of(rows))
    divides = chosen.name == "grpo" or chosen.options.get("scale") == "std"
    divides = divides or (chosen.name == "mt_grpo_reach" and "scale" not in chosen.options)
    if divides:
        same(scaled, base, tolerance=2e-3)
    else:
        same(scaled, [factor * a for a in base])


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo"])
@few
@given(rows=ROWS)
def test_trajectory_advantages_sum_to_zero(name, rows):
    """P5."""
    assert sum(a[0] for a in make(name)(group_of(rows))) == pytest.approx(0, abs=1e-9)


@few
@given(rows=ROWS)
def test_return_to_go_sums_to_zero_over_those_that_reached_a_turn(rows):
    """P5, at every index that more than one reached."""
    group = group_of(rows)
    actual = make("return_to_go")(group)
    for k in range(group.turn_mask.shape[1]):
        reached = [a[k] for a in actual if len(a) > k]
        if len(reached) > 1:
            assert sum(reached) == pytest.approx(0, abs=1e-9)


@few
@given(rows=ROWS)
def test_mt_grpo_at_the_first_turn_is_rloo(rows):
    """All that anybody earns lies from the first turn on, so there the two agree."""
    group = group_of(rows)
    same([a[:1] for a in make("mt_grpo")(group)], [a[:1] for a in make("rloo")(group)])


@few
@given(rows=st.lists(st.tuples(amount, st.lists(turn_reward, min_size=1, max_size=1)), min_size=2, max_size=6))
def test_with_one_turn_each_every_form_is_its_trajectory_estimator_bit_for_bit(rows):
    """P6. mt_grpo standardises reward and outcome apart from each other, so only its unscaled form reduces."""
    group = group_of(rows)
    for name, options in [("return_to_go", {}), ("return_to_go", {"gamma": 0.3}), ("mt_grpo", {})]:
        identical(make(name, **options)(group), make("rloo")(group))
    for name in ("return_to_go", "mt_grpo"):
        identical(make(name, baseline="mean")(group), make("dr_grpo")(group))
    identical(make("return_to_go", scale="std", baseline="mean")(group), make("grpo")(group))


@few
@given(rows=ROWS, nothing=st.sampled_from([math.nan, 0.0]))
def test_without_turn_rewards_only_the_outcome_is_left(rows, nothing):
    """P6: mt_grpo is the outcome estimator bit for bit; so is return_to_go on turns that all reached."""
    group = group_of([(o, [nothing] * len(r)) for o, r in rows])
    for reach in ("mt_grpo", "mt_grpo_reach"):
        identical(make(reach, scale="none", baseline="loo")(group), make("rloo")(group))
        identical(make(reach, scale="std", baseline="mean")(group), make("grpo")(group))
    everyone = int(group.turns.min())
    for actual, base in zip(make("return_to_go")(group), make("rloo")(group), strict=True):
        np.testing.assert_array_equal(actual[:everyone], base[:everyone])


@few
@given(rows=ROWS)
def test_turn_weight_zero_is_bit_for_bit_no_turn_rewards(rows):
    """P6."""
    silent = group_of([(o, [math.nan] * len(r)) for o, r in rows])
    for name, options in FORMS:
        weightless = make(name, **{**options, "turn_weight": 0.0})
        identical(weightless(group_of(rows)), make(name, **options)(silent))


@every_form
@few
@given(rows=ROWS, position=st.integers(0, 6), broken=st.tuples(turn_reward, st.lists(turn_reward, max_size=9)))
def test_a_failed_trajectory_does_not_change_other_advantages(chosen, rows, position, broken):
    """P9, and P8 with it: neither its numbers nor the padding that its length adds are seen. It gets 0."""
    position = min(position, len(rows))
    with_broken = [*rows[:position], broken, *rows[position:]]
    actual = chosen(group_of(with_broken, valid=[i != position for i in range(len(with_broken))]))
    assert not actual[position].any()
    assert len(actual[position]) == len(broken[1])
    identical(actual[:position] + actual[position + 1 :], chosen(group_of(rows)))


@every_form
@few
@given(rows=ROWS, flags=st.lists(st.booleans(), min_size=6, max_size=6))
def test_truncation_is_a_flag_and_not_a_score(chosen, rows, flags):
    """R7."""
    identical(chosen(group_of(rows, truncated=flags[: len(rows)])), chosen(group_of(rows)))


@every_form
@few
@given(
    rows=st.lists(
        st.tuples(st.floats(-1e9, 1e9), st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=4)), min_size=1, max_size=5
    )
)
def test_finite_signals_give_finite_advantages_one_per_turn(chosen, rows):
    """P11, R10, P10."""
    actual = chosen(group_of(rows))
    assert [len(a) for a in actual] == [len(r) for _, r in rows]
    assert all(a.dtype == np.float64 and np.isfinite(a).all() for a in actual)


@pytest.mark.parametrize("ddof", [0, 1])
@few
@given(rows=ROWS)
def test_grpo_is_bounded_by_the_size_of_the_group(ddof, rows):
    """P11: one success among N - 1 failures is the extreme."""
    size = len(rows)
    bound = (size - 1) / math.sqrt(size) if ddof else math.sqrt(size - 1)
    assert all(abs(a).max() <= bound + 1e-9 for a in make("grpo", ddof=ddof)(group_of(rows)))


@pytest.mark.parametrize("size", [2, 4, 9])
def test_grpo_reaches_its_bound(size):
    outcomes = [1.0] + [0.0] * (size - 1)
    actual = make("grpo")(Group.from_arrays(outcomes=outcomes))
    assert actual[0][0] == pytest.approx((size - 1) / math.sqrt(size), rel=1e-4)


@every_form
@few
@given(rows=ROWS, who=st.integers(0, 5), gain=st.integers(1, 64).map(lambda n: n / 16))
def test_a_better_outcome_never_lowers_the_own_advantage(chosen, rows, who, gain):
    """P12, on the first turn, which the outcome reaches in every form.

    Pooled or per-index spreads may grow with the gain of one, so forms that divide are held to it in sign only.
    """
    who %= len(rows)
    better = [(o + gain, r) if i == who else (o, r) for i, (o, r) in enumerate(rows)]
    before, after = chosen(group_of(rows))[who], chosen(group_of(better))[who]
    if chosen.options.get("scale") == "std" and chosen.name == "return_to_go":
        assert after[0] >= before[0] - 1e-9 or np.sign(after[0]) >= np.sign(before[0])
    else:
        assert after[0] > before[0] - 1e-9


@every_form
@few
@given(rows=ROWS)
def test_the_same_group_gives_the_same_bits_and_is_left_as_it_was(chosen, rows):
    """P17."""
    group = group_of(rows)
    outcomes, rewards = group.outcomes.copy(), group.turn_rewards.copy()
    first, second = chosen(group), chosen(group)
    identical(first, second)
    first[0][:] = 7.0  # what a caller does with its answer stays with the caller
    identical(chosen(group), second)
    np.testing.assert_array_equal(group.outcomes, outcomes)
    np.testing.assert_array_equal(group.turn_rewards, rewards)


@every_form
@few
@given(rows=ROWS)
@example(rows=[(0.0, [1 / 64]), (-1.5, [97 / 64])])  # the two returns are equal, but not after rounding
def test_signals_in_single_precision_are_close_enough(chosen, rows):
    """P17: a third of each, so that the rounding is real.

    Where it breaks a tie, the difference is near the epsilon of the standard deviation: it may show, but not in full.
    """
    thirds = [(o / 3, [x / 3 for x in r]) for o, r in rows]
    rounded = [(float(np.float32(o)), [float(np.float32(x)) for x in r]) for o, r in thirds]
    base, actual = chosen(group_of(thirds)), chosen(group_of(rounded))
    tolerance = 0.5 if breaks_a_tie(thirds, rounded) else 1e-3
    for a, b in zip(base, actual, strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance)


def breaks_a_tie(rows, rounded):
    """Whether two sums of rewards are equal in `rows`, up to double precision, and differ in `rounded`."""
    before, after = sums_to_the_end(rows), sums_to_the_end(rounded)
    equal = np.abs(before[:, None] - before) < 1e-12
    return bool((equal & (np.abs(after[:, None] - after) > 1e-12)).any())


def sums_to_the_end(rows):
    """Of every turn of every trajectory: its rewards from there on, without the outcome and with it."""
    sums = [
        [math.fsum(x for x in r[k:] if not math.isnan(x)) + weight * o for k in range(len(r))]
        for weight in (0, 1)
        for o, r in rows
    ]
    return np.concatenate(sums)


@few
@given(rows=ROWS)
def test_dr_grpo_is_rloo_times_one_minus_one_nth(rows):
    group = group_of(rows)
    factor = 1 - 1 / len(rows)
    same(make("dr_grpo")(group), [factor * a for a in make("rloo")(group)])


@few
@given(rows=ROWS, data=st.data())
def test_return_to_go_by_loops_is_return_to_go_by_arrays(rows, data):
    """The vectorised form against the formula, written out with nothing but lists."""
    gamma = data.draw(st.sampled_from([1.0, 0.5]))
    turn_returns, returns = [], []
    for outcome, rewards in rows:
        given_rewards = [0.0 if math.isnan(x) else x for x in rewards]
        last = len(rewards) - 1
        turn_returns.append(
            [
                sum(gamma ** (m - k) * x for m, x in enumerate(given_rewards) if m >= k) + gamma ** (last - k) * outcome
                for k in range(len(rewards))
            ]
        )
        returns.append(sum(given_rewards) + outcome)
    expected = []
    for i, own in enumerate(turn_returns):
        row = []
        for k, value in enumerate(own):
            others = [w[k] for j, w in enumerate(turn_returns) if j != i and len(w) > k]
            others = others or [w for j, w in enumerate(returns) if j != i]
            row.append(value - sum(others) / len(others))
        expected.append(row)
    same(make("return_to_go", gamma=gamma)(group_of(rows)), expected, tolerance=1e-9)


@few
@given(rows=ROWS)
def test_mt_grpo_by_loops_is_mt_grpo_by_arrays(rows):
    """The one-pass linear form against the sum over indices that defines it."""
    longest = max(len(r) for _, r in rows)
    padded = [[0.0 if math.isnan(x) else x for x in r] + [0.0] * (longest - len(r)) for _, r in rows]

    def above_others(values, i):
        return values[i] - sum(v for j, v in enumerate(values) if j != i) / (len(values) - 1)

    expected = []
    for i, (_, rewards) in enumerate(rows):
        terms = [above_others([p[k] for p in padded], i) for k in range(longest)]
        outcome = above_others([o for o, _ in rows], i)
        expected.append([sum(terms[k:]) + outcome for k in range(len(rewards))])
    same(make("mt_grpo")(group_of(rows)), expected, tolerance=1e-9)
