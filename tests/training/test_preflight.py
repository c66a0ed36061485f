"""What is wrong with a recipe is said before a run folder is written or anything is played."""

from __future__ import annotations

import io
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from rich.console import Console

from agentgym.errors import RecipeError
from agentgym.storage import checkpoint_in
from agentgym.task import TaskSet
from agentgym.training import Recipe, train
from agentgym.training.preflight import check_before_start
from agentgym.training.run import differing_keys

sys.path.insert(0, str(Path(__file__).parent))
import lookup_environment


def data(**sections):
    minimal = {"name": "lookup", "tasks": {"set": lookup_environment.NAME}, "policy": {"tiny": {}}}
    return minimal | {"machine": {"device": "cpu"}} | sections


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"train": {"trl": {"epsilom": 0.1}}}, r"\[train.trl\] epsilom = 0.1: .* Did you mean 'epsilon'\?"),
        ({"train": {"trl": {"lr": 3.0}}}, r"GRPOConfig has no option 'lr'"),
        ({"evaluate": {"stratum": "nope"}}, r"evaluate.stratum = 'nope' is no tag of a held-out task"),
    ],
    ids=["trl", "lr", "stratum"],
)
def test_a_wrong_value_is_named_and_no_folder_is_written(tmp_path, sections, message):
    recipe = Recipe.parse(data(**sections))
    with pytest.raises(RecipeError, match=message):
        train(recipe, folder=tmp_path / "run", console=Console(file=io.StringIO()))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("path", "is_refused"),
    [("empty", True), ("nowhere/at/all", True), ("./nowhere", True), ("run", False), ("org/model-1.5B", False)],
)
def test_a_model_that_is_no_checkpoint_is_named(tmp_path, monkeypatch, path, is_refused):
    """A run folder stands for its last checkpoint; a hub model is looked for when it is loaded."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for checkpoint in ("warm_start", "final"):
        (tmp_path / "run" / "checkpoints" / checkpoint).mkdir(parents=True)
        (tmp_path / "run" / "checkpoints" / checkpoint / "config.json").touch()
    assert checkpoint_in(Path("run")) == Path("run/checkpoints/final")
    recipe = Recipe.parse(data(policy={"path": path}))
    with pytest.raises(RecipeError, match=f"policy.path = '{path}' holds no") if is_refused else nullcontext():
        check_before_start(recipe, recipe.tasks.load())


def test_minibatches_that_do_not_divide_the_episodes_of_a_step_are_refused_by_the_recipe():
    with pytest.raises(RecipeError, match="minibatches = 7 does not divide the 64 episodes of a step"):
        Recipe.parse(data(train={"minibatches": 7}))


@pytest.mark.parametrize("split", ["train", "validation", "held_out"])
def test_a_split_without_tasks_is_named(split):
    recipe = Recipe.parse(data())
    complete = recipe.tasks.load()
    splits = {name: list(tasks) for name, tasks in complete.items() if name != split}
    task_set = TaskSet("lookup/part-v1", splits, oracle=complete.oracle)
    with pytest.raises(RecipeError, match=f"has no task in its split '{split}'"):
        check_before_start(recipe, task_set)


def test_the_keys_in_which_two_recipes_differ_are_named():
    recorded, recipe = Recipe.parse(data()), Recipe.parse(data(train={"steps": 3, "trl": {"epsilon": 0.1}}))
    assert differing_keys(recorded, recipe) == [
        "train.steps was 100, now 3",
        "train.trl.epsilon was None, now 0.1",
    ]
