"""The credit of a training batch: groups in order, signals row by row, advantages on the tokens of their turns."""

from __future__ import annotations

import numpy as np
import pytest
from credit_cases import a_trajectory, a_turn, expect, identical

from agentgym import Task
from agentgym.credit import Group, credit_of, estimator, spread_over_tokens
from agentgym.credit.batch import groups_of
from agentgym.errors import CreditError, ShapeError
from agentgym.messages import StopReason

OTHER_TASK = Task("t-2", "acme/counter-v1", prompt="Count on.")
SOLVED = a_trajectory(a_turn(0), a_turn(1))
NOT_SOLVED = a_trajectory(a_turn(0), outcome={"success": 0.0})
FAILED = a_trajectory(outcome={}, stop_reason=StopReason.INFRA_ERROR, task=OTHER_TASK)
SOLVED_OTHER = a_trajectory(a_turn(0), task=OTHER_TASK)
BATCH = [SOLVED, NOT_SOLVED, FAILED, SOLVED_OTHER]


def test_every_trajectory_of_a_batch_gets_the_credit_of_its_own_group():
    """Outcomes 1 and 0 are +1 and -1 above each other; in the second group only one trajectory is valid."""
    expect(credit_of(BATCH, estimator("rloo"), group_size=2), [[1, 1], [-1], [], [0]])


def test_an_estimator_of_batches_compares_all_groups():
    credit = credit_of(BATCH, estimator("reinforce_pp"), group_size=2)
    groups = [Group.from_trajectories(BATCH[:2]), Group.from_trajectories(BATCH[2:])]
    expected = [advantages for group in estimator("reinforce_pp").batch(groups) for advantages in group.advantages]
    identical(credit, expected)
    assert any(credit[0] != 0)


def test_signals_of_a_batch_reach_the_trajectory_in_whose_row_they_are():
    values = [[0.5, 0.25, 0.0], [0.75, 0.0], [0.0], [1.0, 0.0]]
    first, second = groups_of(BATCH, 2, signals={"values": values}, train_version=7)
    np.testing.assert_array_equal(first.values[0], values[0])
    assert second.values[1, 0] == 1.0
    assert first.train_version == second.train_version == 7


@pytest.mark.parametrize(
    ("trajectories", "group_size", "signals", "error", "message"),
    [
        (BATCH, 3, {}, ShapeError, "4 trajectories cannot be divided into groups of 3"),
        (BATCH, 0, {}, ShapeError, "cannot be divided into groups of 0"),
        (BATCH, 2, {"values": [[0.0]]}, ShapeError, "values has 1 rows for a batch of 4 trajectories"),
        (BATCH, 4, {}, CreditError, "a group compares episodes of one task"),
    ],
)
def test_a_batch_that_does_not_fit_its_groups_is_refused(trajectories, group_size, signals, error, message):
    with pytest.raises(error, match=message):
        groups_of(trajectories, group_size, signals=signals)


def test_advantages_lie_on_the_tokens_of_their_turns_and_nowhere_else():
    trajectory = a_trajectory(a_turn(0, token_ids=[1, 2], observation_ids=[9, 9, 9]), a_turn(1, token_ids=[3]))
    tokens = spread_over_tokens(trajectory, np.array([0.5, -2.0]), 8)
    np.testing.assert_array_equal(tokens, [0.5, 0.5, 0, 0, 0, -2.0, 0, 0])
    assert not spread_over_tokens(FAILED, np.zeros(0), 8).any()


def test_advantages_that_do_not_fit_in_the_given_length_are_refused():
    trajectory = a_trajectory(a_turn(0, token_ids=[1, 2, 3]))
    with pytest.raises(ShapeError, match="has 3 tokens after the prompt, which do not fit into length = 2"):
        spread_over_tokens(trajectory, [1.0], 2)
