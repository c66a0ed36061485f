"""Credit finer than a turn: weights of single tokens multiply the advantages of their turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from credit_cases import a_trajectory, a_turn, amount, few
from hypothesis import given
from hypothesis import strategies as st

from agentgym.credit import Group, credit_of, estimator, spread_over_tokens
from agentgym.credit.batch import batch_credit_of
from agentgym.credit.wrappers import define_token_weights
from agentgym.errors import CreditError, MissingSignalError, ShapeError
from agentgym.messages import StopReason
from agentgym.registry import load

NAN = np.nan


@define_token_weights(source="our own", requires=())
def constant(group, advantages, *, value: float = 1.0):
    """The same weight for every token."""
    return np.full((*group.turn_mask.shape, int(np.nanmax(group.signal("lengths")))), value)


def batch_of(rows):
    """Pairs of trajectories: an outcome, and the tokens of each turn; None for a failed episode."""
    trajectories = []
    for index, (outcome, lengths) in enumerate(rows):
        turns = [
            a_turn(k, token_ids=list(range(n)), observation_ids=[1] * (n % 3) if k + 1 < len(lengths) else [])
            for k, n in enumerate(lengths)
        ]
        ended = {"stop_reason": StopReason.INFRA_ERROR, "outcome": {}} if outcome is None else {}
        given_outcome = {"outcome": {"success": outcome}} if outcome is not None else {}
        trajectories.append(a_trajectory(*turns, id=f"t{index}", **ended, **given_outcome))
    return trajectories


EPISODES = st.lists(
    st.tuples(st.one_of(st.none(), amount), st.lists(st.integers(1, 5), min_size=1, max_size=4)), min_size=4, max_size=4
)


def tokens_of(trajectories, chosen):
    credit = batch_credit_of(trajectories, chosen, group_size=2)
    return [
        spread_over_tokens(t, advantages, token_weights=weights)
        for t, advantages, weights in zip(trajectories, credit.advantages, credit.token_weights, strict=True)
    ]


@few
@given(EPISODES)
def test_weights_of_one_change_nothing_bit_for_bit(episodes):
    batch, plain = batch_of(episodes), estimator("return_to_go")
    for ours, before in zip(tokens_of(batch, constant(plain)), tokens_of(batch, plain), strict=True):
        assert ours.tobytes() == before.tobytes()


@few
@given(EPISODES, amount)
def test_weights_scale_tokens_and_leave_failed_episodes_at_zero(episodes, factor):
    batch, plain = batch_of(episodes), estimator("return_to_go")
    weighted = tokens_of(batch, constant(plain, value=factor))
    for trajectory, ours, before in zip(batch, weighted, tokens_of(batch, plain), strict=True):
        np.testing.assert_array_equal(ours, factor * before)
        assert trajectory.valid or not ours.any()


def test_the_advantages_of_turns_stay_what_they_were():
    batch, plain = batch_of([(1.0, [2, 3]), (0.0, [1])]), estimator("rloo")
    weighed = constant(plain, value=0.25)
    for ours, before in zip(
        credit_of(batch, weighed, group_size=2), credit_of(batch, plain, group_size=2), strict=True
    ):
        np.testing.assert_array_equal(ours, before)
    assert plain.explain(Group.from_trajectories(batch)).token_weights is None
    assert (weighed.name, weighed.bias, weighed.requires) == ("rloo | constant", "heuristic", ("outcomes", "lengths"))


def test_weights_of_several_wrappers_multiply_and_survive_a_wrapper_of_turns():
    batch = batch_of([(1.0, [2]), (0.0, [1])])
    chosen = constant(constant(estimator("rloo"), value=3.0), value=0.5)
    chosen = load("credit_wrappers", "masked")(chosen, overlong=True)
    [first, second] = tokens_of(batch, chosen)
    np.testing.assert_array_equal(first, [1.5, 1.5])
    np.testing.assert_array_equal(second, [-1.5])


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (
            lambda group, advantages: np.ones((2, 2)),
            ShapeError,
            r"shape \(2, 2\) for 2 trajectories of at most 2 turns",
        ),
        (lambda group, advantages: np.ones((2, 2, 2)), ShapeError, "and 3 tokens per turn"),
        (lambda group, advantages: np.full((2, 2, 3), NAN), CreditError, "turn 0 of the 0th valid trajectory a weight"),
    ],
)
def test_weights_of_the_wrong_shape_or_that_are_not_finite_are_refused(function, error, message):
    function.__name__ = "wrong"
    chosen = define_token_weights(source="our own", requires=())(function)(estimator("rloo"))
    with pytest.raises(error, match=message):
        chosen(Group.from_trajectories(batch_of([(1.0, [2, 3]), (0.0, [1])])))


def test_weights_that_do_not_fit_a_trajectory_name_it():
    [trajectory] = batch_of([(1.0, [2, 1])])
    with pytest.raises(ShapeError, match=r"'t0' has turns of \[2, 1\] tokens, but its token_weights have the shapes"):
        spread_over_tokens(trajectory, [1.0, 1.0], token_weights=[np.ones(2)])


def token_group(**signals):
    return Group.from_arrays(outcomes=[1.0, -1.0], turns=[1, 1], lengths=[[3], [2]], **signals)


def test_an_entropy_bonus_on_tokens_by_hand():
    """A = +2 and -2. Bonuses min(0.5 H, 1): 0, 0.5, 1 (from 4) and 0.25, 1. Weights 1 + bonus / A."""
    group = token_group(token_entropies=[[[0.0, 1.0, 4.0]], [[0.5, 9.0]]])
    credit = estimator("rloo | entropy_tokens(weight=0.5)").explain(group)
    np.testing.assert_array_equal(np.concatenate(credit.advantages), [2.0, -2.0])
    np.testing.assert_allclose(credit.token_weights[0][0], [1.0, 1.25, 1.5])
    np.testing.assert_allclose(credit.token_weights[1][0], [0.875, 0.5])
    off = estimator("rloo | entropy_tokens(weight=0.0)").explain(group)
    assert all((weights == 1.0).all() for row in off.token_weights for weights in row)


def test_the_same_entropy_at_every_token_is_the_bonus_of_the_turn():
    group = token_group(token_entropies=[[[0.7] * 3], [[0.3] * 2]], entropies=[[0.7], [0.3]])
    of_turns = estimator("rloo | entropy_weighted")(group)
    credit = estimator("rloo | entropy_tokens").explain(group)
    for turn, advantages, weights in zip(of_turns, credit.advantages, credit.token_weights, strict=True):
        np.testing.assert_allclose(advantages[0] * weights[0], np.full(len(weights[0]), turn[0]))


def test_a_flow_bonus_on_tokens_by_hand():
    """Within each episode 1 at the least deviation and -1 at the most; A = +2 and -2, at most 1: 1 + bonus / A."""
    group = token_group(flow_deviations=[[[0.0, 1.0, 4.0]], [[0.5, 1.5]]])
    credit = estimator("rloo | flow_tokens(weight=0.5)").explain(group)
    np.testing.assert_array_equal(np.concatenate(credit.advantages), [2.0, -2.0])
    np.testing.assert_allclose(credit.token_weights[0][0], [1.25, 1.125, 0.75])
    np.testing.assert_allclose(credit.token_weights[1][0], [0.75, 1.25])
    bounded = estimator("rloo | flow_tokens(weight=9.0)").explain(group)
    np.testing.assert_allclose(bounded.token_weights[0][0], [1.5, 1.5, 0.5])
    for text, deviations in (
        ("rloo | flow_tokens", [[[]], [[]]]),  # no flow was learnt yet
        ("rloo | flow_tokens", [[[0.3] * 3], [[0.3] * 2]]),
        ("rloo | flow_tokens(weight=0.0)", [[[0.0, 1.0, 4.0]], [[0.5, 1.5]]]),
    ):
        off = estimator(text).explain(token_group(flow_deviations=deviations))
        assert all((weights == 1.0).all() for row in off.token_weights for weights in row)


def test_spans_carry_the_advantage_of_a_punished_turn():
    """The first trajectory is encouraged: its span is left alone unless all turns are asked for."""
    group = token_group(span_values=[[[NAN, 1.0, NAN]], [[2.0, NAN]]])
    punished = estimator("rloo | span_weighted(outside=0.25)").explain(group).token_weights
    assert [row[0].tolist() for row in punished] == [[1.0, 1.0, 1.0], [2.0, 0.25]]
    both = estimator("rloo | span_weighted(turns='all')").explain(group).token_weights
    assert [row[0].tolist() for row in both] == [[0.0, 1.0, 0.0], [2.0, 0.0]]
    none = estimator("rloo | span_weighted(turns='all')").explain(token_group(span_values=[[[]], [[]]])).token_weights
    assert [row[0].tolist() for row in none] == [[1.0] * 3, [1.0] * 2]


def test_signed_spans_encourage_what_was_right_and_discourage_what_was_wrong():
    """A = +2 and -2: in the first the piece of value 0.5 counts, in the second that of -2."""
    group = token_group(span_values=[[[0.5, -1.0, NAN]], [[1.0, -2.0]]])
    signed = estimator("rloo | span_weighted(turns='signed', outside=0.25)").explain(group).token_weights
    assert [row[0].tolist() for row in signed] == [[0.5, 0.0, 0.25], [0.0, 2.0]]


ENTROPIES = {"token_entropies": [[[0.1, 0.9, 0.5]], [[0.6, 0.2]]]}


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ("share=0.34", [[0.0, 1.0, 1.0], [1.0, 0.0]]),  # ceil(1.02) of 3, ceil(0.68) of 2
        ("share=0.0", [[0.0, 1.0, 0.0], [1.0, 0.0]]),  # at least one
        ("share=0.4, within='group'", [[0.0, 1.0, 0.0], [1.0, 0.0]]),  # 0.9 and 0.6 of five
        ("share=0.2, within='group'", [[0.0, 1.0, 0.0], [0.0, 0.0]]),
        ("share=0.0, final_share=0.8, steps=50", [[0.0, 1.0, 1.0], [1.0, 0.0]]),  # 0.4 after 25 steps
        ("share=0.0, final_share=1.0, steps=25", [[1.0, 1.0, 1.0], [1.0, 1.0]]),
    ],
)
def test_only_the_tokens_with_much_credit_and_high_entropy_are_trained(options, weights):
    """|A| is 2 in both trajectories, at step 25."""
    group = replace(token_group(**ENTROPIES), train_version=25)
    credit = estimator(f"rloo | top_tokens({options})").explain(group)
    assert [row[0].tolist() for row in credit.token_weights] == weights
    np.testing.assert_array_equal(np.concatenate(credit.advantages), [2.0, -2.0])


def test_credit_moves_the_choice_of_tokens_between_turns_and_trajectories():
    """Turns with A = 2 and 0.5 of one trajectory: 2 x 0.3 is above 0.5 x 0.9."""
    group = Group.from_arrays(
        outcomes=[0.0, 0.0],
        turn_rewards=[[1.5, 0.5], [0.0]],
        turns=[2, 1],
        lengths=[[1, 1], [1]],
        token_entropies=[[[0.3], [0.9]], [[0.1]]],
    )
    credit = estimator("return_to_go | top_tokens(share=0.5)").explain(group)
    np.testing.assert_allclose(credit.advantages[0], [2.0, 0.5])
    assert [turn.tolist() for turn in credit.token_weights[0]] == [[1.0], [0.0]]


def test_without_the_signal_the_error_says_who_gives_it():
    with pytest.raises(MissingSignalError, match="give the reward a `spans` method"):
        estimator("rloo | span_weighted")(token_group())
