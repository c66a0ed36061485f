"""The learning rate follows how much the gradients of a step's groups agree."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lookup_runs import execute, small
from loss_checks import check
from tiny_trainers import GROUP, TASKS, gradients, rows, trainer_of

from agentgym.deprecation import AgentGymDeprecationWarning
from agentgym.errors import RecipeError
from agentgym.methods.snr_learning_rate import GroupGradients, SignalToNoiseCallback
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")


def ratio_of(*gradients_of_groups: list[float]) -> float:
    parameter = torch.nn.Parameter(torch.zeros(2))
    measure = GroupGradients()
    measure.start([parameter])
    for gradient in gradients_of_groups:
        added = torch.tensor(gradient)
        parameter.grad = added if parameter.grad is None else parameter.grad + added
        measure.note([parameter])
    return measure.ratio()


def test_the_ratio_by_hand():
    """Gradients (1, 1) and (1, -1): mean (1, 0), so 1; each is 1 away from it, so the variance is 1."""
    assert ratio_of([1.0, 1.0], [1.0, -1.0]) == pytest.approx(1.0)
    assert ratio_of([2.0, 1.0], [2.0, -1.0]) == pytest.approx(4.0)
    assert ratio_of([1.0, 0.0], [-1.0, 0.0]) == 0.0
    assert ratio_of([0.0, 0.0], [0.0, 0.0]) == 0.0
    assert ratio_of([1.0, 2.0], [1.0, 2.0]) == float("inf")
    assert ratio_of([1.0, 2.0]) == float("inf")


def test_groups_are_measured_one_by_one_and_add_up_to_the_batch(tokenizer, tmp_path):
    trainer = trainer_of(tokenizer, tmp_path, loss_type="dr_grpo")
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    at_once = gradients(trainer, batch)
    by_group: list[dict[str, torch.Tensor]] = []
    for group in range(len(TASKS)):
        alone = dict(batch, advantages=batch["advantages"] * (batch["group_of_row"] == group)[:, None])
        by_group.append(gradients(trainer, alone))
    names = at_once.keys() - {"loss"}
    mean = sum(float((at_once[name] / 2).square().sum()) for name in names)
    spread = sum(float((each[name] - at_once[name] / 2).square().sum()) for each in by_group for name in names) / 2

    measure = trainer.group_gradients = GroupGradients()
    trainer._microbatch_tokens = 40  # a group in several parts
    assert len(trainer._parts_of(batch)) > 2
    assert [part.ends_group for part in trainer._parts_of(batch)].count(True) == len(TASKS)
    trainer.model.zero_grad()
    measure.start(trainer.model.parameters())
    trainer.compute_loss(trainer.model, batch).backward()
    measure.note(trainer.model.parameters())
    assert measure.ratio() == pytest.approx(mean / spread, rel=1e-3)
    for name, parameter in trainer.model.named_parameters():
        torch.testing.assert_close(parameter.grad, at_once[name], rtol=1e-4, atol=1e-8)
    assert GROUP > 1


def test_the_rate_is_scaled_for_the_step_alone():
    class Trained:
        group_gradients = GroupGradients()
        logged: dict[str, float] = {}

        def log_metrics(self, metrics: dict[str, float]) -> None:
            self.logged.update(metrics)

    parameter = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    callback, trainer = SignalToNoiseCallback(), Trained()
    callback.trainer = trainer
    trainer.group_gradients.start([parameter])
    for gradient in ([2.0, 1.0], [4.0, 0.0]):
        parameter.grad = torch.tensor(gradient)
        trainer.group_gradients.note([parameter])
    events: Any = (None, None, None)
    callback.on_pre_optimizer_step(*events, optimizer=optimizer)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5 * 4 / 5)
    assert trainer.logged == {"snr": pytest.approx(4.0), "learning_rate_factor": pytest.approx(0.8)}
    callback.on_optimizer_step(*events, optimizer=optimizer)
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_a_run_logs_the_ratio_and_keeps_its_rate(tmp_path):
    chosen = small(
        kl=0.0,
        steps=2,
        parts={"snr_learning_rate": True},
        tasks_per_step=2,
        terms={"entropy_bonus": {"weight": 0.1}},
    )
    execute(chosen, tmp_path / "run")
    for row in RunFolder(tmp_path / "run").metrics("train"):
        assert row["snr"] > 0
        assert row["learning_rate_factor"] == pytest.approx(row["snr"] / (1 + row["snr"]))
        assert row["learning_rate"] == pytest.approx(chosen.train.optimiser.learning_rate)


@pytest.mark.parametrize(
    ("train", "processes", "message"),
    [
        ({}, 2, "measured in one process"),
        ({"objective": "grao", "experts": {}}, 1, "trains on other episodes"),
        ({"trl": {"gradient_accumulation_steps": 2}}, 1, "joins several"),
    ],
)
def test_where_the_ratio_has_no_meaning_it_is_refused(train, processes, message):
    with pytest.raises(RecipeError, match=message):
        check({"parts": {"snr_learning_rate": True}, **train}, processes=processes)


@pytest.mark.parametrize(("value", "parts"), [("true", {"snr_learning_rate": {}}), ("false", {})])
def test_the_key_of_the_optimiser_chooses_the_part_until_it_is_gone(tmp_path, value, parts):
    text = 'name = "a"\n[tasks]\nset = "text/number-guess-v1"\n[train]\nsteps = 1\n[policy.tiny]\n'
    (tmp_path / "a.toml").write_text(text + f"[train.optimiser]\nsnr_learning_rate = {value}\n")
    with pytest.warns(AgentGymDeprecationWarning, match=r"is now train\.parts\.snr_learning_rate"):
        assert Recipe.load(tmp_path / "a.toml").train.parts == parts
