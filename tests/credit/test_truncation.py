"""Truncated episodes that go on from the critic, or pay for coming near their limit, with the arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from agentgym.credit import Group, estimator
from agentgym.errors import CreditError, MissingSignalError
from agentgym.methods.credit.wrappers.truncation import bootstrapped, overlong_penalised

CUT = Group.from_arrays(
    outcomes=[1, 0, None],
    truncated=[False, True, True],
    valid=[True, True, False],
    values=[[0.5, 0.5, 0.9], [0.2, 0.75], []],
    lengths=[[40, 20], [90], []],
)


def test_a_truncated_episode_goes_on_from_the_critic():
    """1 stays, since it terminated; 0 + 0.75. One that failed is not looked at."""
    np.testing.assert_array_equal(bootstrapped(CUT).outcomes, [1.0, 0.75, np.nan])
    assert [a.tolist() for a in estimator("rloo")(bootstrapped(CUT))] == [[0.25, 0.25], [-0.25], []]
    assert CUT.outcomes[1] == 0.0


def test_bootstrapped_outcomes_equal_the_option_of_turn_gae():
    by_option = estimator("turn_gae", truncated="bootstrap")(CUT)
    for actual, expected in zip(estimator("turn_gae")(bootstrapped(CUT)), by_option, strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_a_missing_bootstrap_value_is_named():
    with pytest.raises(CreditError, match="values of the 1th valid trajectory lack the one after"):
        bootstrapped(CUT.with_signals(values=[[0.5, 0.5], [0.2], []]))
    with pytest.raises(MissingSignalError, match="no signal values"):
        bootstrapped(Group.from_arrays(outcomes=[1], truncated=[True]))


def test_an_episode_near_its_limit_pays_in_proportion():
    """Of 100 tokens the last 40 cost: 60 nothing, 90 three quarters, 100 and more all of it."""
    group = overlong_penalised(CUT, limit_tokens=100, buffer_tokens=40, penalty=0.5)
    np.testing.assert_array_equal(group.outcomes, [1.0, -0.375, np.nan])
    longer = CUT.with_signals(lengths=[[40, 21], [500], []])
    group = overlong_penalised(longer, limit_tokens=100, buffer_tokens=40)
    np.testing.assert_allclose(group.outcomes, [1 - 1 / 40, -1.0, np.nan])


@pytest.mark.parametrize("wrong", [{"buffer_tokens": 0}, {"buffer_tokens": 101}, {"penalty": -1.0}])
def test_a_limit_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(CreditError, match="expected 1 <= buffer_tokens <= limit_tokens"):
        overlong_penalised(CUT, **{"limit_tokens": 100, "buffer_tokens": 40, **wrong})
