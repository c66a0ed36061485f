"""The arithmetic of benchmarks/learning.py: arms of compositions, and the paired interval over seeds and tasks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from agentgym.errors import AgentGymError


@pytest.fixture(scope="module")
def learning() -> Any:
    import learning

    return learning


def run(arm: str, seed: int, tasks: dict[str, float], success: list[float] | None = None) -> dict[str, Any]:
    curve = success or [0.5, 0.9]
    return {
        "arm": arm,
        "estimator": arm,
        "seed": seed,
        "steps": [5, 10][: len(curve)],
        "success": curve,
        "calls_ok": [1.0] * len(curve),
        "before": 0.0,
        "held_out": sum(tasks.values()) / len(tasks),
        "tasks_before": dict.fromkeys(tasks, 0.0),
        "tasks": tasks,
        "held_out_all": 0.0,
        "minutes": 1.0,
    }


def test_two_arms_are_compared_seed_by_seed_and_task_by_task(learning: Any):
    """Seed 0: +1 and 0 on the two tasks that both have; seed 1: +1 and +1. Mean of 0.5 and 1."""
    first = [run("a", 0, {"x": 0.0, "y": 1.0}), run("a", 1, {"x": 0.0, "y": 0.0})]
    second = [run("b", 0, {"x": 1.0, "y": 1.0, "z": 0.0}), run("b", 1, {"x": 1.0, "y": 1.0})]
    mean, low, high = learning.paired_interval(second, first)
    assert mean == 0.75
    assert 0 <= low < 0.75 < high <= 1
    assert learning.paired_interval(first, first) == (0.0, 0.0, 0.0)
    assert math.isnan(learning.paired_interval(second, [run("a", 7, {"x": 0.0})])[0])


def test_an_arm_is_an_estimator_with_its_wrappers_and_a_wrong_one_is_refused_before_anything_runs(learning: Any):
    text = "return_to_go; gigpo(gamma=1.0) | gated(threshold=1.0) ;"
    assert list(learning.arms_of(text)) == ["return_to_go", "gigpo(gamma=1.0) | gated(threshold=1.0)"]
    assert learning.arms_of(None)["outcome"] == "grpo(turn_weight=0.0)"
    with pytest.raises(AgentGymError, match="return_to_go"):
        learning.arms_of("return_to_goo")


def test_every_arm_has_a_folder_of_its_own(learning: Any):
    first, second = (
        learning.Arm(text, text, 0).folder for text in ("rloo | gated(threshold=1.0)", "rloo | gated(threshold=10)")
    )
    assert first != second
    assert first.startswith("rloo-gated-threshold-1-0-")
    assert learning.Arm("outcome", "grpo", 0).folder == "outcome"


def test_the_shared_start_replaces_the_model_and_nothing_else(learning: Any, tmp_path: Path):
    arm = learning.Arm("a", "rloo | gated", 3)
    recipe = learning._recipe(
        arm, str(tmp_path), ["train.steps=7", "train.optimiser.learning_rate=1e-5", "policy.tiny.layers=1"]
    )
    assert (recipe.policy.path, recipe.policy.tiny, recipe.warm_start) == (str(tmp_path), None, None)
    assert (recipe.seed, recipe.train.steps, recipe.train.estimator) == (3, 7, "rloo | gated")
    assert recipe.train.optimiser.learning_rate == 1e-5


def test_a_report_is_written_of_what_is_there_and_never_of_nothing(learning: Any, tmp_path: Path):
    runs = [run("a", 0, {"x": 0.0}), run("b | c", 0, {"x": 1.0}, [0.5])]
    rows = learning.report(runs, ["a", "b | c", "d"], tmp_path, plotted=False)
    assert [row[0] for row in rows] == ["a", "b | c", "d"]
    assert rows[0][6] == ""
    assert rows[1][6].startswith("+1.00")
    assert rows[1][5].startswith("+1.00")
    assert rows[0][5].startswith("+0.00")
    assert [row[8] for row in rows] == ["10", "-", "-"]
    written = (tmp_path / "table.md").read_text()
    assert "| b \\| c |" in written
    learning.report([], ["a"], tmp_path, plotted=True)
    assert (tmp_path / "table.md").read_text() == written
