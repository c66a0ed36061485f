"""A recipe may list the stages of its run: each in its own folder, resumed one by one, with options of its own."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from lookup_runs import assert_equal_weights, recipe
from staged_runs import run, with_stages

from agentgym import register
from agentgym.errors import RecipeError
from agentgym.evaluation.report.contents import read
from agentgym.evaluation.report.run_data import run_data
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder, checkpoint_in
from agentgym.training import Recipe
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import define_stage
from agentgym.training.stages.plan import planned_stages

STAGES = [
    {"kind": "imitate", "options": {"steps": 15}},
    {"kind": "evaluate", "name": "start"},
    {"kind": "reinforce", "name": "easy", "options": {"steps": 2, "objective": "reinforce", "save_every": 1}},
    {"kind": "evaluate", "name": "middle", "options": {"tasks": 4}},
    {"kind": "reinforce", "name": "hard", "options": {"steps": 3, "estimator": "rloo"}},
    {"kind": "evaluate", "name": "end"},
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stages") / "run"
    output = run(with_stages(*STAGES), folder)
    assert "start" in output
    assert "end" in output
    return folder


def test_every_stage_leaves_its_result_under_its_own_name(finished):
    folder = RunFolder(finished)
    assert folder.evaluations() == ["end", "middle", "start"]
    phases = {row["phase"] for row in folder.metrics()}
    assert phases == {"warm_start", "warm_start_validation", "easy", "easy_validation", "hard", "hard_validation"}
    assert [row["step"] for row in folder.metrics("easy")] == [1, 2]
    assert [row["step"] for row in folder.metrics("hard")] == [1, 2, 3]
    assert "loss/objective" in folder.metrics("easy")[0], "the options of a stage are its own"
    assert "loss/objective" not in folder.metrics("hard")[0]
    for name in ("easy", "hard"):
        credit = (finished / "stages" / name / "credit.jsonl").read_text().splitlines()
        assert all(json.loads(row)["trajectory"].startswith(f"{name}-") for row in credit)
        assert (finished / "stages" / name / "checkpoints" / "final").is_dir()
    ledger = Ledger(finished / "ledger.sqlite")
    assert len(list(ledger.trajectories("easy-"))) == 2 * 8
    assert len(list(ledger.trajectories("hard-"))) == 3 * 8
    assert len(list(ledger.trajectories("held-out-middle"))) == 4
    ledger.close()


def test_the_report_draws_every_stage_that_trains(finished):
    data = run_data(read(finished))
    assert (data["step"], data["steps"]) == (5, 5)
    assert [stage["phase"] for stage in data["reinforcement"]] == ["easy", "hard"]
    assert [stage["phase"] for stage in data["imitation"]] == ["warm_start"]
    assert {"easy", "hard", "warm_start"} < set(data["curves"])
    assert data["bands"]["hard_validation"]
    assert any(alarm.startswith("hard, step 3: ") for alarm in data["alarms"])


def test_the_result_of_the_run_is_that_of_its_last_stage(finished):
    last = finished / "stages" / "hard"
    assert_equal_weights(finished, last)
    assert checkpoint_in(finished) == finished / "checkpoints" / "final"
    text = (finished / "recipe.toml").read_text()
    assert text.count("[[stage]]") == len(STAGES)
    assert Recipe.load(finished / "recipe.toml").stage[2].options["steps"] == 2


def test_a_run_goes_on_with_the_first_stage_that_is_not_done(finished, tmp_path):
    resumed = tmp_path / "run"
    shutil.copytree(finished, resumed)
    shutil.rmtree(resumed / "stages" / "hard")
    shutil.rmtree(resumed / "checkpoints")
    (resumed / "evaluation" / "end.json").unlink()
    shutil.rmtree(resumed / "stages" / "easy" / "checkpoints" / "final")
    shutil.rmtree(resumed / "stages" / "easy" / "checkpoints" / "checkpoint-2")
    run(with_stages(*STAGES), resumed, resume=True)
    assert_equal_weights(finished, resumed)
    assert RunFolder(resumed).evaluations() == ["end", "middle", "start"]
    assert [row["step"] for row in RunFolder(resumed).metrics("easy")] == [1, 2]


@pytest.mark.parametrize(
    ("missing", "stage"), [("stages/easy/checkpoints/final", "easy"), ("evaluation/middle.json", "middle")]
)
def test_a_run_whose_earlier_stage_has_lost_its_result_is_not_resumed(finished, tmp_path, missing, stage):
    copy = tmp_path / "run"
    shutil.copytree(finished, copy)
    shutil.rmtree(copy / missing) if (copy / missing).is_dir() else (copy / missing).unlink()
    message = f"the stage '{stage}' has no result ({copy / missing} is missing), but the later stage 'hard' has one"
    with pytest.raises(RecipeError, match=re.escape(message)):
        run(with_stages(*STAGES), copy, resume=True)


def test_a_recipe_without_a_list_has_the_usual_stages():
    def kinds(chosen: Recipe) -> list[str]:
        return [f"{stage.kind} {stage.name}" for stage in planned_stages(chosen)]

    usual = ["imitate warm_start", "evaluate before", "reinforce train", "evaluate after"]
    assert kinds(recipe()) == usual
    assert kinds(recipe(evaluate__control={"seed": 1})) == [*usual, "control control"]
    assert kinds(recipe(train__steps=0)) == [usual[0], usual[1], usual[3]]
    data = recipe().model_dump(exclude_none=True)
    del data["warm_start"]
    assert kinds(Recipe.parse(data)) == usual[1:]
    assert not any(stage.has_folder for stage in planned_stages(recipe()))


@define_stage(checkpoint="shrunk")
def shrink(context: RunContext, learner: Learner, *, factor: float = 0.5) -> Learner:
    """Multiplies every weight: what a user's own stage may do."""
    with torch.no_grad():
        for parameter in learner.model.parameters():
            parameter.mul_(factor)
    learner.model.save_pretrained(context.folder.checkpoints / "shrunk")
    learner.tokenizer.save_pretrained(context.folder.checkpoints / "shrunk")
    return learner


register("test_shrink", shrink, kind="stages")


def test_a_stage_of_ones_own_has_options_of_its_own(tmp_path):
    chosen = with_stages({"kind": "imitate"}, {"kind": "test_shrink", "options": {"factor": 2.0}}, warm_start__steps=1)
    folder = tmp_path / "run"
    run(chosen, folder)
    from safetensors.torch import load_file

    before = load_file(folder / "stages" / "warm_start" / "checkpoints" / "warm_start" / "model.safetensors")
    after = load_file(folder / "checkpoints" / "final" / "model.safetensors")
    assert all(torch.equal(2.0 * before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"kind": "reinfroce"}], "stage.kind = 'reinfroce'.*Did you mean 'reinforce'"),
        ([{"kind": "reinforce"}, {"kind": "reinforce"}], "two entries of .*have the name 'train'"),
        ([{"kind": "reinforce", "options": {"stepz": 1}}], "'train'.*no key 'train.stepz'. Did you mean 'steps'"),
        ([{"kind": "evaluate", "name": "x", "options": {"tasks": 0}}], "'x'.*evaluate.tasks = 0"),
        ([{"kind": "reinforce", "name": "No!"}], "stage.0.name = 'No!'"),
        ([{"kind": "reinforce", "options": {"objective": "topr(x=1)"}}], "topr.* has no option 'x'"),
        ([{"kind": "test_shrink", "options": {"by": 2.0}}], "'test_shrink'.*no option 'by'"),
    ],
)
def test_a_wrong_list_is_one_line_before_anything_starts(stages, message):
    def check() -> None:
        chosen = with_stages(*stages)
        check_before_start(chosen, chosen.tasks.load())

    with pytest.raises(RecipeError, match=message):
        check()


def test_an_adapter_is_trained_by_reinforcement_last(tmp_path):
    data = with_stages({"kind": "reinforce", "name": "a"}, {"kind": "reinforce", "name": "b"}).model_dump(
        exclude_none=True
    )
    data["policy"] = {"path": "models/none", "lora": {}}
    del data["warm_start"]
    chosen = Recipe.parse(data)
    with pytest.raises(RecipeError, match="the stage 'b' would train after one that has merged it"):
        check_before_start(chosen, chosen.tasks.load())


def test_a_run_with_stages_of_its_own_is_not_extended(finished):
    longer = [dict(stage) for stage in STAGES]
    chosen = with_stages(*longer, train__steps=9)
    with pytest.raises(RecipeError, match="lists its own stages"):
        run(chosen, finished, extend=True)
