"""benchmarks/objectives.py: every objective and term is an arm, every arm fits its recipe, and the table by hand."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from agentgym.training import Recipe
from agentgym.training.loss.checks import check_losses


@pytest.fixture(scope="module")
def objectives() -> Any:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    import objectives

    return objectives


def test_every_objective_and_term_is_an_arm(objectives: Any):
    bundled = {point.name for point in entry_points(group="agentgym.objectives")}
    assert bundled <= {arm.get("objective") for arm in objectives.ARMS.values()}
    terms = {name for arm in objectives.ARMS.values() for name in arm.get("terms", {})}
    assert {point.name for point in entry_points(group="agentgym.loss_terms")} - terms == {"thought_sft"}


def test_every_arm_has_what_its_losses_need(objectives: Any, tmp_path: Path):
    for arm in objectives.ARMS:
        recipe: Recipe = objectives.recipe_of(arm, 1, Path("a/start"), Path("a/teacher"), 3, objectives.COMMON)
        assert recipe.policy.path == "a/start"
        assert recipe.train.steps == 3
        check_losses(recipe, recipe.tasks.load())
        if "teacher" in objectives.ARMS[arm]:
            assert recipe.train.teacher.path == "a/teacher"


def test_the_table_compares_with_the_first_arm(objectives: Any):
    def run(arm: str, seed: int, held_out: float, step_s: float) -> dict[str, Any]:
        tasks = {"x": held_out}
        return {"arm": arm, "seed": seed, "held_out": held_out, "tasks": tasks, "success": [0.2, 0.4], "step_s": step_s}

    rows = objectives.table([run("grpo", 0, 0.5, 2.0), run("nft", 0, 0.75, 3.0)], ["grpo", "nft", "pacs"])
    assert rows[0] == ["grpo", "0.50 [0.50, 0.50]", "", "0.30 [0.30, 0.30]", "2.00", "1.00"]
    assert rows[1] == ["nft", "0.75 [0.75, 0.75]", "+0.25 [+0.25, +0.25]", "0.30 [0.30, 0.30]", "3.00", "1.50"]
    assert len(rows) == 2
