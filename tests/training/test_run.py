"""A whole recipe: every stage leaves its result, and a run that was cut short ends where it would have ended."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path

import lookup_environment
import numpy as np
import pytest
from lookup_runs import assert_equal_weights, execute, recipe, start_training

from agentgym.errors import CreditError, HeldOutError, RecipeError, TaskError
from agentgym.evaluation.record import Evaluation
from agentgym.registry import load_task_set
from agentgym.storage.checkpoints import COMPLETE, latest_checkpoint
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.task.task_set import TaskSet
from agentgym.training import Recipe
from agentgym.training.extension import depends_on_steps, extend, write_or_compare_recipe
from agentgym.training.recipe.reward_section import RewardSection


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory) -> Path:
    """One run from nothing to its report."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    execute(recipe(), folder)
    return folder


def test_every_stage_leaves_its_result(finished_run):
    for name in ("recipe.toml", "ledger.sqlite", "metrics.jsonl", "credit.jsonl", "report.html"):
        assert (finished_run / name).stat().st_size > 0, name
    for name in ("warm_start", "final", "checkpoint-4"):
        assert (finished_run / "checkpoints" / name / "model.safetensors").is_file(), name
    for when in ("before", "after"):
        rows = json.loads((finished_run / "evaluation" / f"{when}.json").read_text())["rows"]
        assert len(rows) == 16


def test_trackers_show_conversations_of_each_step(finished_run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(finished_run / "tensorboard"), size_guidance={"tensors": 0})
    events.Reload()
    names = {f"train/episode_{number}/text_summary" for number in range(4)}
    assert set(events.Tags()["tensors"]) == names
    for name in names:
        texts = {event.step: event.tensor_proto.string_val[0].decode() for event in events.Tensors(name)}
        assert [*texts] == [1, 2, 3, 4]
        assert all(f"id train-{step - 1:06d}/" in text and "[assistant]" in text for step, text in texts.items())


def test_metrics_hold_every_phase_and_only_numbers(finished_run):
    rows = [json.loads(line) for line in (finished_run / "metrics.jsonl").read_text().splitlines()]
    assert {"warm_start", "warm_start_validation", "train", "validation"} <= {row["phase"] for row in rows}
    steps = [row["step"] for row in rows if row["phase"] == "train"]
    assert steps == [1, 2, 3, 4]
    assert all(isinstance(v, (int, float)) for row in rows for k, v in row.items() if k != "phase")


def test_the_ledger_and_the_credit_file_name_the_same_turns(finished_run):
    from agentgym.storage.ledger import Ledger

    ledger = Ledger(finished_run / "ledger.sqlite")
    credit = [json.loads(line) for line in (finished_run / "credit.jsonl").read_text().splitlines()]
    assert len(credit) == 4 * 8
    for row in credit:
        trajectory = ledger.load(row["trajectory"])
        assert len(row["advantages"]) == len(trajectory.turns)
        assert trajectory.turns[0].policy_version == row["step"]
    ledger.close()


def test_a_run_that_resumes_from_a_checkpoint_ends_bit_equal(finished_run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(finished_run, copy)
    shutil.rmtree(copy / "checkpoints" / "final")
    shutil.rmtree(copy / "checkpoints" / "checkpoint-4")
    (copy / "evaluation" / "after.json").unlink()
    for name in ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"):
        (copy / name).unlink(missing_ok=True)  # so that its episodes are played anew, not read back
    execute(recipe(), copy, resume=True)
    assert_equal_weights(finished_run, copy)


def test_an_extended_run_ends_as_one_with_so_many_steps_from_the_start(finished_run, tmp_path):
    """Its weights, training metrics and final evaluation; the former evaluation is kept under another name."""
    short, longer = tmp_path / "short", recipe()
    execute(recipe(train__steps=2), short)
    former = json.loads((short / "evaluation" / "after.json").read_text())
    with pytest.raises(RecipeError, match=r"train.steps was 2, now 4. To train it for more steps, write --extend"):
        execute(longer, short, resume=True)
    execute(longer, short, extend=True)
    assert_equal_weights(finished_run, short)
    assert Recipe.load(short / "recipe.toml") == longer
    for when in ("before", "after"):
        rows, expected = (Evaluation.load(f / "evaluation" / f"{when}.json").rows for f in (short, finished_run))
        assert [row.success for row in rows] == [row.success for row in expected]
    former_record = Evaluation.load(short / "evaluation" / "after-step-000002.json")
    assert former_record.label == "after-step-000002"
    assert former_record.to_json()["rows"] == former["rows"]
    steps = [row["step"] for row in RunFolder(short).metrics("train")]
    assert steps == [1, 2, 3, 4]
    ledger = Ledger(short / "ledger.sqlite")
    labels = [ledger.finished(label) for label in ("held-out-after", "held-out-after-step-000002", "train-000003")]
    assert [len(ids) for ids in labels] == [16, 16, 8]
    former_episode = sorted(labels[1])[0]
    assert ledger.load(former_episode).id == former_episode
    ledger.close()
    with pytest.raises(RecipeError, match=r"train.steps = 3 is below the recorded 4: --extend needs more"):
        execute(recipe(train__steps=3), short, extend=True)


def test_a_run_is_extended_in_nothing_but_its_steps(finished_run):
    with pytest.raises(RecipeError, match=r"train.optimiser.learning_rate was 0.0003, now 1e-05"):
        execute(recipe(train__steps=9, train__optimiser={"learning_rate": 1e-5}), finished_run, extend=True)


def test_what_follows_the_number_of_steps_is_named():
    task_set = load_task_set(lookup_environment.NAME)
    assert depends_on_steps(recipe().train, None, task_set) == []
    follows = recipe(train__trl={"lr_scheduler_type": "cosine", "warmup_steps": 0.1})
    scheduled = {"schedules": {"looked": {"start": 1.0, "end": 0.0}}}
    follows = follows.model_copy(update={"reward": RewardSection(**scheduled)})
    warming = recipe(train__terms={"entropy_bonus": {"warmup": 0.1}})
    assert depends_on_steps(warming.train, None, task_set) == ["a schedule of a loss term"]
    assert depends_on_steps(follows.train, follows.make_reward(task_set), task_set) == [
        "[train.trl] lr_scheduler_type = 'cosine'",
        "[train.trl] warmup_steps, a share of all steps,",
        "a schedule of the reward",
    ]


@pytest.mark.parametrize("trouble", ["guard", "checkpoints", "max_steps"])
def test_a_run_that_cannot_be_extended_is_refused_and_left_as_it_is(finished_run, tmp_path, trouble):
    copy = tmp_path / "run"
    shutil.copytree(finished_run, copy)
    longer, reason = recipe(train__steps=6), {"guard": "guard stopped", "checkpoints": "contains no folder checkpoint-"}
    if trouble == "guard":
        (copy / "guard.json").write_text('{"stopped": true, "alarms": []}')
    elif trouble == "checkpoints":
        for checkpoint in (copy / "checkpoints").glob("checkpoint-*"):
            shutil.rmtree(checkpoint)
    else:
        longer = recipe(train__steps=6, train__trl={"max_steps": 2})
    with pytest.raises(RecipeError, match=reason.get(trouble, r"max_steps = 2 overrides train.steps")):
        extend(RunFolder(copy), recipe(), longer)
    assert (copy / "checkpoints" / "final").is_dir()
    assert (copy / "evaluation" / "after.json").is_file()


def test_training_stops_when_validation_succeeds_and_neither_a_resume_nor_an_extension_goes_beyond(
    finished_run, tmp_path
):
    """Any success is enough here, so the validation at step 2 of 4 ends it."""
    folder, data = tmp_path / "run", recipe(train__until_success=0.0).model_dump(exclude_none=True)
    del data["warm_start"]
    chosen = Recipe.parse({**data, "policy": {"path": str(finished_run)}})
    execute(chosen, folder)
    assert [row["step"] for row in RunFolder(folder).metrics("train")] == [1, 2]
    stopped = tmp_path / "stopped"
    shutil.copytree(folder, stopped)
    shutil.rmtree(folder / "checkpoints" / "final")  # as if it had been killed after its last checkpoint
    execute(chosen, folder, resume=True)
    assert_equal_weights(stopped, folder)
    longer = Recipe.parse({**chosen.model_dump(exclude_none=True), "train": {**data["train"], "steps": 6}})
    with pytest.raises(RecipeError, match=r"ended at step 2, where it reached train.until_success = 0.0"):
        execute(longer, folder, extend=True)


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)])
def test_a_broken_off_run_goes_on_and_ends_as_an_unbroken_one(finished_run, tmp_path, how):
    folder = tmp_path / "run"
    process = start_training(recipe(), folder)
    deadline = time.monotonic() + 240
    while not latest_checkpoint(folder / "checkpoints"):  # killed in the middle of step 3
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(how)
    assert process.wait(60) != 0
    execute(recipe(), folder, resume=True)
    assert_equal_weights(finished_run, folder)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["phase"] == "train"] == [1, 2, 3, 4]


def test_an_audited_run_logs_how_its_credit_agrees_and_learns_the_same(finished_run, tmp_path):
    """Every second of four steps, with its cost; the weights are those of the run without."""
    folder = tmp_path / "run"
    execute(recipe(train__parts={"credit_audit": {"every": 2, "sample": 4, "continuations": 2}}), folder)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    audited = {row["step"]: row for row in rows if "audit/turns" in row}
    assert sorted(audited) == [2, 4]
    for row in audited.values():
        assert row["audit/seconds"] > 0
        assert row["audit/episodes"] % 2 == 0
        assert row["audit/diverged"] == 0
        assert 0 <= row["audit/zero_gradient"] <= 1
    assert_equal_weights(finished_run, folder)


@pytest.mark.parametrize(
    "text",
    ["tree", "hcapo", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("sibling", "ragen", "hca", "otb"))],
)
def test_every_signal_an_estimator_asks_for_is_made_while_training(finished_run, tmp_path, text):
    """The estimators whose signals cost most: trees grown, critics of tokens, hindsight, the length of scores."""
    chosen = recipe(train__estimator=text, train__steps=1, train__group_size=4)
    data = chosen.model_dump(exclude_none=True)
    data["policy"] = {"path": str(finished_run / "checkpoints" / "warm_start"), "call_format": "hermes"}
    data["warm_start"] = None
    data["evaluate"]["tasks"] = 2
    execute(Recipe.parse({key: value for key, value in data.items() if value is not None}), tmp_path / "run")
    (row,) = RunFolder(tmp_path / "run").metrics("train")
    assert row["credit/std"] >= 0
    assert np.isfinite(row["loss"])


@pytest.mark.thorough  # test_loss_sources.py resumes a run with more terms and a reference
def test_an_objective_with_a_reference_and_a_term_trains_and_resumes_bit_equal(tmp_path):
    terms = {"entropy_bonus": {"weight": 0.01, "schedule": {"start": 1.0, "end": 0.0}}}
    chosen = recipe(train__objective="topr(max_ratio=2.0)", train__kl=0.01, train__terms=terms)
    unbroken, resumed = tmp_path / "unbroken", tmp_path / "resumed"
    execute(chosen, unbroken)
    rows = list(RunFolder(unbroken).metrics("train"))
    assert rows[0]["loss/reference_kl"] == pytest.approx(0.0, abs=1e-7)
    assert all(row["loss/entropy_bonus"] < 0 < row["entropy"] for row in rows)
    assert all(np.isfinite(row["loss/objective"]) for row in rows)
    shutil.copytree(unbroken, resumed)
    for name in ("final", "checkpoint-4"):
        shutil.rmtree(resumed / "checkpoints" / name)
    execute(chosen, resumed, resume=True)
    assert_equal_weights(unbroken, resumed)


@pytest.mark.parametrize(("text", "says"), [("gigpo", "state_key"), ("igpo", "has no `answer`")])
def test_a_signal_that_nobody_gives_is_said_before_anything_is_trained(tmp_path, text, says):
    with pytest.raises(CreditError, match=says):
        execute(recipe(train__estimator=text), tmp_path / "run")
    assert not list((tmp_path / "run" / "checkpoints").glob("*"))


def test_a_checkpoint_that_was_cut_short_is_passed_over(tmp_path):
    for step, complete in ((2, True), (4, True), (10, False)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if complete:
            (tmp_path / f"checkpoint-{step}" / COMPLETE).touch()
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint-4"


def test_an_existing_run_is_not_overwritten(finished_run):
    with pytest.raises(RecipeError, match="already holds a run"):
        execute(recipe(), finished_run)


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_does_not_begin_among_the_episodes_of_an_evaluation(finished_run, tmp_path, resume):
    shutil.copy(finished_run / "ledger.sqlite", tmp_path / "ledger.sqlite")
    with pytest.raises(RecipeError, match=r"holds episodes of an evaluation or a rollout.*--out"):
        execute(recipe(), tmp_path, resume=resume)
    assert not (tmp_path / "recipe.toml").exists()


def test_a_run_is_not_resumed_with_another_recipe(finished_run):
    with pytest.raises(RecipeError, match="another recipe"):
        execute(recipe(train__optimiser={"learning_rate": 1e-5}), finished_run, resume=True)


def test_a_run_of_version_0_1_is_resumed_with_the_same_recipe_although_the_pool_has_another_default(tmp_path):
    run = RunFolder(tmp_path / "run").create()
    run.recipe.write_text(recipe(episode__backend="docker", episode__pool=0).to_toml())
    write_or_compare_recipe(run, recipe(episode__backend="docker"), resume=True)
    with pytest.raises(RecipeError, match="another recipe"):
        write_or_compare_recipe(run, recipe(episode__backend="docker", train__steps=9), resume=True)


def test_the_held_out_split_is_closed_while_training(finished_run):
    with TaskSet.training_only(), pytest.raises(HeldOutError):
        load_task_set(lookup_environment.NAME)["held_out"]


def test_a_checkpoint_is_trained_further_through_the_same_path(finished_run, tmp_path):
    data = recipe().model_dump(exclude_none=True)
    data["policy"] = {"path": str(finished_run / "checkpoints" / "final")}
    data.pop("warm_start")
    data["train"] |= {"steps": 1, "generation": "trl"}
    folder = execute(Recipe.parse(data), tmp_path / "run").path
    assert (folder / "checkpoints" / "final" / "model.safetensors").is_file()


def test_a_path_that_is_no_model_is_refused(tmp_path):
    data = recipe().model_dump(exclude_none=True)
    data["policy"] = {"path": str(tmp_path)}
    with pytest.raises(RecipeError, match=r"policy\.path.*contains no checkpoint"):
        execute(Recipe.parse(data), tmp_path / "run")


def test_trl_options_pass_through_and_wrong_ones_are_named(tmp_path):
    with pytest.raises(RecipeError, match=r"\[train\.trl\].*epsilom"):
        execute(recipe(train__trl={"epsilom": 0.1}, warm_start__steps=1), tmp_path / "run")


@pytest.mark.together("users of the even policy")
def test_reinforcement_finds_out_what_imitation_could_not(even, tmp_path):
    """Both players press a button; only reward tells which is right. Success rises beyond its interval."""
    data = recipe().model_dump(exclude_none=True)
    data["tasks"] = {"set": lookup_environment.PRESS}
    data["policy"] = {"path": str(even), "call_format": "hermes"}
    del data["warm_start"]
    data["train"] |= {"steps": 30, "tasks_per_step": 4, "group_size": 8, "save_every": 30}
    data["train"]["optimiser"] = {"learning_rate": 1e-3}
    data["evaluate"] |= {"group_size": 4, "temperature": 0.5}
    run = execute(Recipe.parse(data), tmp_path / "run")
    before, after = (Evaluation.load(run.path / f"evaluation/{when}.json").success() for when in ("before", "after"))
    assert before.value <= 0.5
    assert after.value > 0.7
    assert after.low > before.high


def test_the_control_measurement_answers_from_another_environment(tmp_path):
    data = recipe(warm_start__steps=1, train__steps=0).model_dump(exclude_none=True)
    data["evaluate"] |= {"control": {"boxes": {}}, "tasks": 2}
    run = execute(Recipe.parse(data), tmp_path / "run")
    assert Evaluation.load(run.path / "evaluation" / "control.json").success().value == 0


def test_a_task_set_without_an_imperfect_oracle_is_named(tmp_path):
    data = recipe(warm_start__imperfect_oracle=0.5).model_dump(exclude_none=True)
    data["tasks"] = {"set": "code/functions-v1"}
    with pytest.raises(TaskError, match=r"code/functions-v1 has no imperfect_oracle"):
        execute(Recipe.parse(data | {"warm_start": {"demonstrations": 4, "imperfect_oracle": 0.5}}), tmp_path / "run")
