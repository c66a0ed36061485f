"""Rounds of playing and learning find out what imitation could not: which of two buttons is right."""

from __future__ import annotations

import pytest
from staged_runs import pressing, run

from agentgym.evaluation.record import Evaluation

pytestmark = [pytest.mark.slow, pytest.mark.together("users of the even policy")]


@pytest.mark.parametrize(
    "learn",
    [
        {"kind": "imitate", "name": "learn", "options": {"episodes": ["collect"], "steps": 10, "batch_size": 8}},
        pytest.param(
            {"kind": "prefer", "options": {"beta": 0.5, "imitation_weight": 1.0, "steps": 8, "learning_rate": 5e-4}},
            marks=pytest.mark.thorough,
        ),
    ],
    ids=["expert iteration", "preferences"],
)
def test_three_rounds_raise_success(even, tmp_path, learn):
    collect = {"kind": "collect", "options": {"tasks": 16, "group_size": 4}}
    measured = {"group_size": 4, "tasks": 16, "temperature": 0.5}
    stages = [
        {"kind": "evaluate", "name": "start", "options": measured},
        {"kind": "repeat", "options": {"times": 3, "stages": [collect, learn]}},
        {"kind": "evaluate", "name": "end", "options": measured},
    ]
    folder = tmp_path / "run"
    run(pressing(*stages, start=str(even)), folder)
    before, after = (Evaluation.load(folder / "evaluation" / f"{when}.json").success() for when in ("start", "end"))
    assert before.value <= 0.5
    assert after.value > 0.7
    assert after.low > before.high
