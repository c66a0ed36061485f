"""Runs whose losses need a teacher, experts, optimal values, a corrector or a reference of another kind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import lookup_environment
import numpy as np
import pytest
import torch
from lookup_runs import PUSHED, assert_equal_weights, execute, small
from planned import check_parts_of
from transformers import TrainerState

from agentgym.errors import RecipeError
from agentgym.evaluation.record import Evaluation
from agentgym.methods.objectives.apo import soft_maximum
from agentgym.policy import make_tokenizer
from agentgym.policy.checkpoint import load_checkpoint
from agentgym.storage.run_folder import RunFolder, checkpoint_in
from agentgym.training import Recipe
from agentgym.training.monitoring.callbacks import ValidationCallback, success_reached_at
from agentgym.training.processes import ALONE
from agentgym.training.recipe.train_section import ReferenceSection, TrainSection
from agentgym.training.stages.update_parts import Reference

FIXED = {"reference": {"kind": "fixed"}}
LONG_ENOUGH = {"max_episode_tokens": 64, "max_turn_tokens": 48}
"""Budgets in which a button can be pressed."""


def forget_the_end(run: Path, copy: Path, step: int) -> None:
    """A copy of a run as it was when it was cut short after the checkpoint before `step`."""
    shutil.copytree(run, copy)
    for name in ("final", f"checkpoint-{step}"):
        shutil.rmtree(copy / "checkpoints" / name)
    for name in ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "evaluation/after.json"):
        (copy / name).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory) -> Path:
    """A policy that learnt from the oracle alone to press the right button."""
    folder = tmp_path_factory.mktemp("teacher") / "run"
    data = small(kl=0.0, steps=0).model_dump(exclude_none=True)
    data["warm_start"] |= {"steps": 150, "demonstrations": 32, "batch_size": 8}
    data["warm_start"]["learning_rate"] = 5e-3
    data["evaluate"] |= {"tasks": 1}
    data["episode"] |= LONG_ENOUGH
    execute(Recipe.parse(data), folder)
    return checkpoint_in(folder)


def started_from(checkpoint: Path, **train) -> Recipe:
    """The small recipe without a warm start."""
    data = small(kl=0.0, **train).model_dump(exclude_none=True)
    del data["warm_start"]
    return Recipe.parse({**data, "policy": {"path": str(checkpoint)}})


def test_every_kind_of_input_reaches_its_loss_and_a_resumed_run_ends_bit_equal(teacher, tmp_path):
    terms = {
        "teacher_kl": {"weight": 0.1, "options": {"mask": "response"}},
        "reference_kl": {"weight": 0.1},
        "expert_sft": {"weight": 0.3, "warmup": 0.5},
        "entropy_band": {"weight": 0.1, "options": {"low": 0.8, "high": 1.2, "relative": True}},
    }
    inputs = {"parts": {"teacher": {"path": str(teacher)}}, "experts": {}, "keep_checkpoints": 4, **FIXED}
    chosen = started_from(teacher, steps=3, objective="grao", terms=terms, optimiser={"learning_rate": 0.01}, **inputs)
    execute(chosen, tmp_path / "run")
    rows = list(RunFolder(tmp_path / "run").metrics("train"))
    assert rows[0]["loss/teacher_kl"] == pytest.approx(0, abs=1e-12)  # the policy begins as its teacher
    assert rows[0]["loss/reference_kl"] == 0
    assert rows[0]["loss/entropy_band"] == 0
    assert rows[-1]["loss/reference_kl"] > 0
    assert all(row["loss/expert_sft"] > 0 and "loss/objective_of_experts" in row for row in rows)
    forget_the_end(tmp_path / "run", tmp_path / "copy", 3)
    assert (tmp_path / "copy" / "checkpoints" / "checkpoint-2" / "entropies.json").is_file()
    execute(chosen, tmp_path / "copy", resume=True)
    assert_equal_weights(tmp_path / "run", tmp_path / "copy")


def test_a_teacher_teaches_without_any_reward(teacher, tmp_path):
    """The student is the teacher with noise on its weights. Every advantage is 0, so that only the teacher counts."""
    model, tokenizer = load_checkpoint(teacher, device="cpu")
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.04 * torch.randn_like(parameter))
    student = tmp_path / "student"
    model.save_pretrained(student)
    tokenizer.save_pretrained(student)
    data = started_from(
        student,
        steps=10,
        tasks_per_step=8,
        optimiser={"learning_rate": 1e-3},
        parts={"teacher": {"path": str(teacher)}},
        terms={"teacher_kl": {"weight": 1.0}},
    ).model_dump(exclude_none=True)
    data["reward"] = {"weights": {"success": 0.0}}
    data["episode"] |= LONG_ENOUGH
    data["evaluate"] |= {"tasks": 16, "temperature": 1.0}
    execute(Recipe.parse(data), tmp_path / "run")
    before, after = (
        Evaluation.load(tmp_path / "run" / "evaluation" / f"{when}.json").success().value
        for when in ("before", "after")
    )
    losses = [row["loss/teacher_kl"] for row in RunFolder(tmp_path / "run").metrics("train")]
    assert losses[-1] < losses[0] / 10
    assert after > before + 0.2


def test_a_teacher_of_another_vocabulary_is_refused(teacher, tmp_path):
    data = small(kl=0.0, parts={"teacher": {"path": str(teacher)}}, terms={"teacher_kl": {}}).model_dump(
        exclude_none=True
    )
    data["tasks"]["set"] = lookup_environment.NAME
    with pytest.raises(RecipeError, match="this model's vocabulary differs from the policy's, so it"):
        execute(Recipe.parse(data), tmp_path / "run")
    make_tokenizer(["seven red boxes"] * 20, vocab_size=280).save_pretrained(tmp_path / "other")
    shutil.copy(teacher / "config.json", tmp_path / "other")
    chosen = started_from(tmp_path / "other", parts={"teacher": {"path": str(teacher)}}, terms={"teacher_kl": {}})
    with pytest.raises(RecipeError, match=r"has another vocabulary than policy\.path"):
        check_parts_of(chosen)


def test_apo_learns_in_groups_of_one_from_values_that_are_estimated_once_and_kept(teacher, tmp_path):
    sizes = {"group_size": 1, "tasks_per_step": 4}
    data = started_from(teacher, steps=2, objective="apo(beta=0.1)", keep_checkpoints=4, **sizes, **FIXED)
    chosen = Recipe.parse(data.model_dump(exclude_none=True) | {"episode": LONG_ENOUGH})
    execute(chosen, tmp_path / "run")
    values = json.loads((tmp_path / "run" / "checkpoints" / "optimal_values.json").read_text())
    assert len(values) == 8
    assert max(values.values()) > 0
    losses = [row["loss/objective"] for row in RunFolder(tmp_path / "run").metrics("train")]
    assert min(losses) >= 0
    assert max(losses) > 0
    credit = (tmp_path / "run" / "credit.jsonl").read_text().splitlines()
    assert len({json.loads(line)["trajectory"] for line in credit}) == len(credit) == 8
    forget_the_end(tmp_path / "run", tmp_path / "copy", 2)
    execute(chosen, tmp_path / "copy", resume=True)
    assert_equal_weights(tmp_path / "run", tmp_path / "copy")


def test_an_optimal_value_lies_between_the_mean_and_the_best():
    returns = np.array([0.0, 0.0, 1.0, 1.0])
    assert soft_maximum(returns, 1e-3) == pytest.approx(1.0, abs=1e-2)
    assert soft_maximum(returns, 1e3) == pytest.approx(0.5, abs=1e-3)
    assert soft_maximum(returns, 0.5) == pytest.approx(0.5 * np.log((1 + np.exp(2)) / 2))
    assert np.isnan(soft_maximum(returns[:0], 0.5))


def test_a_reference_that_only_a_term_of_weight_0_reads_changes_nothing(tmp_path):
    execute(small(**{**PUSHED, "kl": 0.0}, steps=2), tmp_path / "without")
    terms = {"reference_kl": {"weight": 0.0}}
    execute(small(**{**PUSHED, "kl": 0.0}, steps=2, terms=terms, **FIXED), tmp_path / "with")
    assert_equal_weights(tmp_path / "without", tmp_path / "with")
    rows = list(RunFolder(tmp_path / "with").metrics("train"))
    assert rows[0]["loss/reference_kl"] == 0 < rows[1]["loss/reference_kl"]


def test_the_optimiser_forgets_its_moments_with_a_reset(tmp_path):
    reset = {"kind": "reset", "reset_every": 2, "reset_optimiser": True}
    execute(small(steps=3, reference=reset, keep_checkpoints=4), tmp_path / "run")
    states = [
        torch.load(tmp_path / "run" / "checkpoints" / f"checkpoint-{step}" / "optimizer.pt")["state"]
        for step in (1, 2, 3)
    ]
    assert [bool(state) for state in states] == [True, False, True]


def reference_of_the_best(trainer: SimpleNamespace, checkpoint: Path | None = None) -> Reference:
    """Make the part of a run without a reference to load, which begins here or at a checkpoint."""
    section = TrainSection(reference=ReferenceSection(kind="best"))
    reference = Reference(section, None, None, ALONE)
    reference._checkpoint = checkpoint
    reference.attach(trainer)
    return reference


def test_a_reference_follows_validation_only_where_it_is_the_best_so_far(tmp_path):
    ours, theirs = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    trainer = SimpleNamespace(
        ref_model=ours, model=theirs, accelerator=SimpleNamespace(unwrap_model=lambda model: model)
    )
    callback = reference_of_the_best(trainer)
    start = ours.weight.clone()
    for success in (0.5, 0.5, 0.25):
        callback.validated({"success": success})
        assert torch.equal(ours.weight, start)
    callback.validated({"success": 0.75})
    assert torch.equal(ours.weight, theirs.weight)
    folder = tmp_path / "checkpoint-1" / "reference"
    folder.mkdir(parents=True)
    (folder / "best.json").write_text('{"success": 0.9}')
    resumed = reference_of_the_best(trainer, folder.parent)
    with torch.no_grad():
        theirs.weight.add_(1.0)
    resumed.validated({"success": 0.8})
    assert not torch.equal(ours.weight, theirs.weight)


def test_a_reference_that_follows_validation_is_in_its_checkpoints(tmp_path):
    chosen = small(kl=0.05, steps=2, reference={"kind": "best"}, validate_every=1)
    execute(chosen, tmp_path / "run")
    saved = tmp_path / "run" / "checkpoints" / "checkpoint-2" / "reference"
    assert (saved / "model.safetensors").is_file()
    assert json.loads((saved / "best.json").read_text()) == {"success": 0.0}
    assert [row["step"] for row in RunFolder(tmp_path / "run").metrics("validation")] == [0, 1, 2]
    for folder in (tmp_path / "run" / "checkpoints").iterdir():
        if folder.is_dir() and folder.name != "warm_start":
            shutil.rmtree(folder)  # as if it had been killed before its first checkpoint
    execute(chosen, tmp_path / "run", resume=True)
    assert [row["step"] for row in RunFolder(tmp_path / "run").metrics("validation")] == [0, 1, 2]


def test_the_first_validation_of_training_moves_the_reference_if_it_is_better_than_the_start():
    ours, theirs = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    accelerator = SimpleNamespace(unwrap_model=lambda model: model)
    reference = reference_of_the_best(SimpleNamespace(ref_model=ours, model=theirs, accelerator=accelerator))
    success = {0: 0.25, 5: 0.5}
    validation = ValidationCallback(lambda step: reference.validated({"success": success[step]}), every=5, before=True)
    start = ours.weight.clone()
    validation.on_train_begin(None, TrainerState(global_step=0, max_steps=9), None)
    assert torch.equal(ours.weight, start)
    validation.on_step_end(None, TrainerState(global_step=5, max_steps=9), None)
    assert torch.equal(ours.weight, theirs.weight)


def test_a_validation_before_the_first_step_ends_no_training(tmp_path):
    run = RunFolder(tmp_path / "run").create()
    run.log(0, "validation", success=1.0)
    assert success_reached_at(run, 0.5) is None
    run.log(2, "validation", success=1.0)
    assert success_reached_at(run, 0.5) == 2
