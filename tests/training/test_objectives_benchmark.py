"""benchmarks/objectives.py: every objective, term and stage is an arm and fits its recipe, and the table by hand."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from planned import check_parts_of

from agentgym.training import Recipe
from agentgym.training.stages.plan import planned_stages


@pytest.fixture(scope="module")
def objectives() -> Any:
    import objectives

    return objectives


def test_every_objective_and_term_is_an_arm(objectives: Any):
    bundled = {point.name for point in entry_points(group="agentgym.objectives")}
    assert bundled <= {arm.get("objective") for arm in objectives.ARMS.values()}
    terms = {name for arm in objectives.ARMS.values() for name in arm.get("terms", {})}
    assert {point.name for point in entry_points(group="agentgym.loss_terms")} - terms == {"thought_sft"}


def test_every_kind_of_stage_that_learns_is_an_arm(objectives: Any):
    stages = [objectives.arm_stages(arm, 640, "return_to_go") for arm in objectives.STAGE_ARMS]
    from objective_stages import kinds_of

    kinds = set().union(*(kinds_of(each) for each in stages))
    measures = {"control"}
    assert kinds | measures == {point.name for point in entry_points(group="agentgym.stages")}


@pytest.mark.parametrize("base", ["text", "quickstart"])
@pytest.mark.thorough
def test_every_arm_has_what_its_losses_or_stages_need(objectives: Any, base: str):
    for arm in (*objectives.ARMS, *objectives.STAGE_ARMS):
        start, teacher = Path("a/start"), Path("a/teacher")
        recipe: Recipe = objectives.recipe_of(arm, 1, start, teacher, 3, base, objectives.COMMON)
        assert recipe.policy.path == "a/start"
        assert recipe.train.steps == 3
        check_parts_of(recipe)
        if "teacher" in objectives.ARMS.get(arm, {}).get("parts", {}):
            assert recipe.train.parts["teacher"] == {"path": "a/teacher"}
        planned = planned_stages(recipe)
        assert [stage.name for stage in planned if stage.kind.startswith("evaluate")] == ["before", "after"]
        assert episodes_of(planned) <= 3 * recipe.train.tasks_per_step * recipe.train.group_size


def episodes_of(planned: list[Any]) -> int:
    """The episodes that stages collect, and at most play beside that, for training."""
    collected = [stage.options for stage in planned if stage.kind == "collect"]
    forks = [stage.options for stage in planned if stage.kind == "prefer" and stage.options.pairs == "segment"]
    beside = forks[0].branches if forks else 0
    return sum(options.tasks * options.group_size * (1 + beside) for options in collected)


def test_the_table_compares_with_the_first_arm(objectives: Any):
    def row(arm: str, seed: int, held_out: float, step_s: float | None) -> dict[str, Any]:
        tasks = {"x": held_out}
        return {"arm": arm, "seed": seed, "held_out": held_out, "tasks": tasks, "episodes": 640, "step_s": step_s}

    rows = [row("grpo", 0, 0.5, 2.0), row("nft", 0, 0.75, 3.0), row("dpo", 0, 0.5, None)]
    failed = {"arm": "pacs", "seed": 0, "error": "It had no memory."}
    lines = objectives.table([*rows, failed], ["grpo", "nft", "dpo", "pacs", "kto"])
    assert lines[0] == ["grpo", "0.50 [0.50, 0.50]", "", "640", "2.00", "1.00"]
    assert lines[1] == ["nft", "0.75 [0.75, 0.75]", "+0.25 [+0.25, +0.25]", "640", "3.00", "1.50"]
    assert lines[2] == ["dpo", "0.50 [0.50, 0.50]", "+0.00 [+0.00, +0.00]", "640", "-", "-"]
    assert len(lines) == 3


def test_the_table_holds_the_rows_of_every_call(objectives: Any, tmp_path: Path):
    """Calls with other arms may run at the same time, and each writes the rows of all."""
    for arm in ("grpo", "dpo"):
        cell = tmp_path / "seed-0" / arm / "cell.json"
        cell.parent.mkdir(parents=True)
        row = {"arm": arm, "seed": 0, "held_out": 0.5, "tasks": {"x": 0.5}, "episodes": 8, "step_s": 1.0}
        cell.write_text(json.dumps(row))
    objectives.report(tmp_path, ["grpo"])
    assert len(json.loads((tmp_path / "results.json").read_text())) == 2
    assert [line.split(" | ")[0] for line in (tmp_path / "table.md").read_text().splitlines()[2:]] == [
        "| grpo",
        "| dpo",
    ]


def test_a_cell_that_fails_is_a_row_with_the_reason_and_the_others_go_on(objectives: Any, tmp_path: Path):
    """The recipe of this seed cannot be read: its warm start has no steps at all."""
    row = objectives.run_cell("grpo", 0, tmp_path, 1, "text", ["warm_start.steps=-1"])
    assert "warm_start.steps = -1" in row["error"]
    assert json.loads((tmp_path / "seed-0" / "grpo" / "cell.json").read_text()) == row
