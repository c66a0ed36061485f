"""The whole trainer against the policy gradient from its formulas, for every objective and every core estimator."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_day import some_by_day
from credit_reference import ESTIMATORS
from gradient_reference import GradientReference
from gradient_runs import (
    KL,
    MAX_LENGTH,
    RATE,
    ROWS,
    TEMPERATURE,
    Given,
    Weights,
    model_of,
    run,
    run_in_processes,
    trained,
    trainer_of,
    words,
)
from tiny_trainers import gradients

from agentgym import registry
from agentgym.credit import Group, estimator
from agentgym.errors import CreditError
from agentgym.training.objectives.contract import make_objective, needs_of
from agentgym.training.turn_grpo import TurnGRPOTrainer

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")

NAMES = [name for name in registry.names("objectives") if registry.origin("objectives", name)]  # not other tests' own
BY_TURN = [name for name in NAMES if needs_of(make_objective(name)).advantages]
Trainers = Callable[..., TurnGRPOTrainer]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the reference model, whose weights are others than the policy's."""
    folder = tmp_path_factory.mktemp("gradients")
    model_of(words(), seed=7).save_pretrained(folder / "reference")
    return folder


@pytest.fixture(scope="module")
def trainers(folder) -> Trainers:
    """Make the trainer of an objective, once."""
    known: dict[str, TurnGRPOTrainer] = {}

    def trainer(name: str) -> TurnGRPOTrainer:
        if name not in known:
            known[name] = trainer_of(words(), folder, name)
            known[name].current_gradient_accumulation_steps = 1
            known[name].model.train()
        return known[name]

    return trainer


@pytest.fixture(scope="module")
def reference() -> GradientReference:
    model, tokenizer = model_of(words()), words()
    given = Given(model, len(tokenizer))
    other = model_of(tokenizer, seed=7)
    return GradientReference(model, given.groups, experts=given.experts, temperature=TEMPERATURE, reference=other)


def gradient(trainer: TurnGRPOTrainer, estimate: Any) -> Weights:
    """The trainer's gradient, computed in several parts."""
    trainer._estimator = estimate
    batch = trainer._generate_and_score_completions(ROWS)
    assert len(trainer._parts_of(batch)) > 2
    return {name: value for name, value in gradients(trainer, batch).items() if name != "loss"}


def distance(actual: Weights, expected: Weights) -> float:
    """The largest difference, as a share of the largest entry."""
    scale = max(float(value.abs().max()) for value in expected.values())
    assert scale > 1e-6
    return max(float((actual[name] - value).abs().max()) for name, value in expected.items()) / scale


@pytest.mark.parametrize("name", NAMES)
def test_every_objective_has_the_gradient_of_its_formula_with_every_estimator(trainers, reference, name):
    """Off policy, with a KL, unequal, truncated and failed episodes, results and further rows, in parts."""
    estimators = list(ESTIMATORS.items())
    turned = deque(estimators)
    turned.rotate(-NAMES.index(name))  # so that two for each objective are every estimator for some
    for text, estimate in some_by_day(turned, 2) if name in BY_TURN else estimators[:1]:
        expected = reference.gradient(name, estimate, max_length=MAX_LENGTH, kl=KL)
        assert distance(gradient(trainers(name), estimator(text)), expected) < 1e-5, text


def test_a_reference_that_only_a_term_reads_does_not_weigh_on_the_loss_of_trl(trainers, reference, monkeypatch):
    monkeypatch.setattr(trainers("grpo"), "_kl", 0.0)
    text, estimate = next(iter(ESTIMATORS.items()))
    expected = reference.gradient("grpo", estimate, max_length=MAX_LENGTH, kl=0.0)
    assert distance(gradient(trainers("grpo"), estimator(text)), expected) < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_credit_that_moves_between_the_turns_of_an_episode_moves_the_gradient(trainers, name):
    """By as much for one turn as against another, token for token, so that the sum over the episode's tokens stays."""

    def credit(group: Group, way: int) -> list[np.ndarray]:
        lengths = group.signal("lengths")
        advantages = [np.ones(turns) for turns in group.turns]
        for i, own in enumerate(advantages):
            if len(own) > 1:
                own[:2] += way * 0.9 * np.array([1.0, -1.0]) * lengths[i, :2].min() / lengths[i, :2]
        return advantages

    first, second = (gradient(trainers(name), lambda group, way=way: credit(group, way)) for way in (1, -1))
    if name in BY_TURN:
        assert distance(first, second) > 0.05
    else:  # these say so, and a recipe that names an estimator for them is refused
        assert distance(first, second) == 0.0


def test_a_ratio_by_episode_beside_credit_by_turn_is_refused(folder):
    trainer = trainer_of(words(), folder, "grpo", trl={"importance_sampling_level": "sequence"})
    trainer.model.train()
    with pytest.raises(CreditError, match=r"credit by turn would be lost\. Choose the objective 'gspo'"):
        trainer._generate_and_score_completions(ROWS)
    trainer._estimator = estimator("rloo")
    trainer._generate_and_score_completions(ROWS)


def descent(model: Any, name: str, text: str, steps: int) -> Weights:
    """By how much the weights move in steps of gradient descent on the same episodes, by the formulas."""
    given = Given(model, len(words()))
    formulas = GradientReference(model, given.groups, experts=given.experts, temperature=TEMPERATURE)
    for _ in range(steps):
        formulas.step(formulas.gradient(name, ESTIMATORS[text], max_length=MAX_LENGTH), RATE)
    after = trained(formulas.model)
    return {n: after[n] - before for n, before in trained(model).items()}


@pytest.mark.parametrize(
    ("name", "lora"),
    [("dr_grpo", True), ("dapo", False), ("gspo", True), ("decoupled_ppo", False), ("pacs", False)],
)
def test_a_run_moves_the_weights_by_the_formulas(folder, name, lora):
    """Two iterations on one batch, so that the second is off policy; in two accumulated batches, unless it compares."""
    model = model_of(words(), lora=lora)
    expected = descent(model, name, "mt_grpo", steps=2)
    halves = {
        "gradient_accumulation_steps": 2,
        "steps_per_generation": 2,
        "per_device_train_batch_size": len(ROWS) // 2,
    }
    trl = {} if needs_of(make_objective(name)).whole_groups else halves
    assert distance(run(name, "mt_grpo", model, folder, iterations=2, trl=trl), expected) < 1e-4


@pytest.mark.parametrize("name", ["dapo", "gspo"])
def test_two_processes_move_the_weights_by_the_formulas(folder, tmp_path, name):
    (tmp_path / "reference").symlink_to(folder / "reference")
    expected = descent(model_of(words()), name, "gigpo", steps=1)
    assert distance(run_in_processes(2, name, "gigpo", tmp_path), expected) < 1e-4
