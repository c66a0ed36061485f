"""Groups, strategies and comparisons that several tests of credit share."""

from __future__ import annotations

import math
import os
import warnings

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from agentgym import Task, Trajectory, Turn
from agentgym.credit import CreditWarning, Estimator, Group, estimator
from agentgym.messages import Call, Message, StopReason

NONE = math.nan
GROUP = Group.from_arrays(outcomes=[1, 0, 0], turn_rewards=[[0.5, 0], [0], [NONE, 0.2, 0.1]])
"""The group of the worked examples: three trajectories of 2, 1 and 3 turns.

i   outcome   turn rewards          R_i
0   1         0.5   0               1.5
1   0         0                     0
2   0         none  0.2   0.1       0.3
"""
TASK = Task("t-1", "acme/counter-v1", prompt="Count.")

few = settings(max_examples=20 if "AGENTGYM_TEST_ALL" in os.environ else 5, deadline=None)

# Multiples of 1/64: sums are exact, so identities hold exactly. Standard deviations are either 0 or far above 1e-6.
amount = st.integers(-128, 128).map(lambda n: n / 64)
turn_reward = st.one_of(amount, st.just(math.nan))
ROWS = st.lists(st.tuples(amount, st.lists(turn_reward, min_size=1, max_size=5)), min_size=2, max_size=6)
"""Outcome and turn rewards of each trajectory, for `group_of`."""


def make(name: str, **options: object) -> Estimator:
    """A registered estimator, without the warning of those that are kept for reproduction."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CreditWarning)
        return estimator(name, **options)


def group_of(rows, **more) -> Group:
    return Group.from_arrays(outcomes=[o for o, _ in rows], turn_rewards=[r for _, r in rows], **more)


def a_turn(index: int, rewards: dict[str, float] | None = None, **fields: object) -> Turn:
    call = Call("look")
    return Turn(index, Message("assistant", calls=(call,)), calls=(call,), rewards=rewards or {}, **fields)


def a_trajectory(*turns: Turn, outcome: dict[str, float] | None = None, **fields: object) -> Trajectory:
    fields = {"id": "run/t-1#0", "task": TASK, "stop_reason": StopReason.ANSWERED, **fields}
    return Trajectory(turns=list(turns), outcome={"success": 1.0} if outcome is None else outcome, **fields)


def expect(advantages: list[np.ndarray], expected: list[list[float]], tolerance: float = 1e-12) -> None:
    """The advantages are the expected numbers, as float64."""
    assert [len(a) for a in advantages] == [len(e) for e in expected]
    for actual, numbers in zip(advantages, expected, strict=True):
        assert actual.dtype == np.float64
        np.testing.assert_allclose(actual, numbers, rtol=0, atol=tolerance)


def same(left, right, tolerance=1e-12):
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def identical(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)


def angle(a: np.ndarray, b: np.ndarray) -> float:
    """The cosine of the angle between two vectors."""
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
