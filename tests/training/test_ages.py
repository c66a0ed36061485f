"""How old tokens are, and what they are worth, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scripted_episodes import task

from agentgym import Trajectory, Turn
from agentgym.evaluation.diagnostics import age_metrics, credit_metrics, effective_share
from agentgym.messages import Message, StopReason


def turn(index: int, tokens: int, version: int, *changes: tuple[int, int]) -> Turn:
    message = Message("assistant")
    return Turn(index, message, token_ids=[1] * tokens, policy_version=version, version_changes=changes)


def test_a_turn_is_as_old_as_its_first_token():
    """Trained at 9. Ages of tokens 4, 4, 2, 2 | 0 | 0, as 10 is of lost weights: mean 12/6, one of 3 turns."""
    turns = [turn(0, 4, 5, (2, 7)), turn(1, 1, 9), turn(2, 1, 10)]
    episode = Trajectory("a", task(), turns=turns, stop_reason=StopReason.ANSWERED)
    failed = Trajectory("b", task(), turns=[turn(0, 3, 0)], stop_reason=StopReason.INFRA_ERROR)
    metrics = age_metrics([episode, failed], version=9, bound=3)
    assert metrics == {"async/masked": pytest.approx(1 / 3), "async/age_mean": 2.0, "async/age_max": 4.0}
    assert age_metrics([failed], version=9, bound=3) == {}


def test_the_effective_sample_size_is_all_of_them_on_policy_and_one_where_one_outweighs_the_rest():
    assert effective_share(np.zeros(4)) == 1.0
    assert effective_share(np.array([800.0, 0, 0, 0])) == pytest.approx(0.25)
    assert effective_share(np.array([math.log(2), 0])) == pytest.approx(9 / 10)  # 3^2 / (2 * 5)
    ratios = {"log_ratios": [[[0.5, 0.5], []], [[0.5]]]}
    assert credit_metrics([], [], ratios)["off_policy/effective_sample_size"] == pytest.approx(1.0)
    assert "off_policy/effective_sample_size" not in credit_metrics([], [], {})
