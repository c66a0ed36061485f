"""What is wrong with a recipe is said before a run folder is written or anything is played."""

from __future__ import annotations

import io
import os
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import lookup_environment
import pytest
from rich.console import Console

from agentgym import Reward, TaskSet
from agentgym.errors import ClusterError, RecipeError
from agentgym.registry import register
from agentgym.storage.run_folder import checkpoint_in
from agentgym.training import Recipe, train
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.checks.trials import check_environments
from agentgym.training.extension import differing_keys


def data(**sections):
    minimal = {"name": "lookup", "tasks": {"set": lookup_environment.NAME}, "policy": {"tiny": {}}}
    return minimal | {"machine": {"device": "cpu"}} | sections


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"train": {"trl": {"epsilom": 0.1}}}, r"\[train.trl\] epsilom = 0.1: .* Did you mean 'epsilon'\?"),
        ({"train": {"trl": {"lr": 3.0}}}, r"GRPOConfig has no option 'lr'"),
        ({"evaluate": {"stratum": "nope"}}, r"evaluate.stratum = 'nope': no held-out task"),
        ({"warm_start": {"tags": ["nope"]}}, r"warm_start.tags = 'nope': no train task"),
        (
            {"train": {"validate_stratum": "nope"}},
            r"train.validate_stratum = 'nope': no validation task",
        ),
        ({"evaluate": {"control": {"boxs": {}}}}, r"evaluate.control.boxs: no environment .* Did you mean 'boxes'\?"),
        ({"train": {"trl": {"max_grad_norm": "x"}}}, r"max_grad_norm = 'x' is text, but TRL expects .* such as 1.0"),
        ({"train": {"trl": {"report_to": ["wandbb"]}}}, r"report_to = \['wandbb'\] cannot be used: wandbb is not"),
        ({"train": {"trl": {"use_vllm": True}}}, "use_vllm = true has an effect only with train.generation"),
        ({"reward": {"options": {"nope": {"x": 1}}}}, r"reward.options.nope: this recipe uses no reward 'nope'"),
        (
            {"train": {"tasks_per_step": 65}},
            r"tasks_per_step = 65, but test/lookup-v1 has only 64 training tasks, too few for one step",
        ),
        ({"machine": {"nodes": 3}}, r"nodes 3 has an effect only with a cluster, .* Set engine = ray"),
    ],
    ids=["trl", "lr", "stratum", "tags", "validate", "control", "text", "report", "vllm", "reward", "tasks", "nodes"],
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
    with pytest.raises(RecipeError, match=f"policy.path = '{path}' contains no") if is_refused else nullcontext():
        check_before_start(recipe, recipe.tasks.load())


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"seed": -1}, "seed = -1"),
        ({"name": ""}, "name = ''"),
        ({"policy": {"tiny": {"heads": 3}}}, "heads = 3 must be a multiple of kv_heads = 2"),
        ({"policy": {"tiny": {"head_dim": 7}}}, "head_dim = 7"),
    ],
)
def test_numbers_that_no_model_or_trainer_takes_are_refused_by_the_recipe(sections, message):
    with pytest.raises(RecipeError, match=message):
        Recipe.parse(data(**sections))


def test_an_environment_that_cannot_be_reset_is_named_with_the_task_and_the_line():
    recipe = Recipe.parse(data())
    complete = recipe.tasks.load()
    splits = {name: [replace(task, parameters={"index": task.id}) for task in complete[name]] for name in complete}
    task_set = TaskSet("lookup/empty-v1", splits, oracle=complete.oracle)
    with pytest.raises(
        RecipeError, match=r"KeyError: 'boxes' at \S*lookup_environment.py:\d+ \(while resetting test/l"
    ):
        check_before_start(recipe, task_set)


def test_a_control_parameter_that_tasks_leave_out_is_known_by_being_read():
    class MayBeLong(lookup_environment.Lookup):
        async def reset(self, task, *, seed):
            self.is_long = task.parameters.get("long", False)
            return task.opening()

    register("test/shown-v1", MayBeLong)
    recipe = Recipe.parse(data())
    complete = recipe.tasks.load()
    splits = {name: [replace(task, environment="test/shown-v1") for task in complete[name]] for name in complete}
    task_set = TaskSet("lookup/shown-v1", splits)
    check_environments(task_set, recipe.episode, {"long": True}, title="the tasks", seed=0)
    with pytest.raises(RecipeError, match=r"evaluate.control.lang: .* Did you mean 'long'"):
        check_environments(task_set, recipe.episode, {"lang": True}, title="the tasks", seed=0)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"weights": {"sucess": 2.0}}, r"reward.weights.sucess: no reward .* Did you mean 'success'\?"),
        ({"caps": {"loked": 1.0}}, r"reward.caps.loked: .* Did you mean 'looked'\?"),
        ({"gates": [{"by": "won", "threshold": 1.0}]}, r"reward.gates: by = 'won': .* Components are: looked, success"),
        (
            {"schedules": {"x": {"start": 0, "end": 1}}},
            r"reward.schedules.x: no reward of this recipe gives a component 'x'",
        ),
    ],
    ids=["weights", "caps", "gates", "schedules"],
)
def test_a_component_that_no_reward_gives_is_named(section, message):
    recipe = Recipe.parse(data(reward=section))
    with pytest.raises(RecipeError, match=message):
        check_before_start(recipe, recipe.tasks.load())


def test_a_reward_whose_weights_nearly_name_what_it_gives_is_named():
    class Misspelt(lookup_environment.Right):
        weights: ClassVar = {"succes": 2.0, "asked_for": 0.1}

    register("test_misspelt", Misspelt, kind="rewards")
    recipe = Recipe.parse(data(reward={"name": "test_misspelt"}))
    with pytest.raises(RecipeError, match=r"`weights` name the component 'succes', but it gives 'success'"):
        check_before_start(recipe, recipe.tasks.load())


def test_a_reward_that_reads_the_truth_of_tasks_without_one_is_named():
    recipe = Recipe.parse(data())
    complete = recipe.tasks.load()
    without = {name: [replace(task, truth=None) for task in complete[name]] for name in complete}
    with pytest.raises(RecipeError, match=r"the reward reads `task.truth`, which is None in every training task"):
        check_before_start(recipe, TaskSet("lookup/untrue-v1", without, oracle=complete.oracle))
    check_before_start(recipe, complete)


@pytest.mark.parametrize("split", ["train", "validation", "held_out"])
def test_a_split_without_tasks_is_named(split):
    recipe = Recipe.parse(data())
    complete = recipe.tasks.load()
    splits = {name: list(tasks) for name, tasks in complete.items() if name != split}
    task_set = TaskSet("lookup/part-v1", splits, oracle=complete.oracle)
    with pytest.raises(RecipeError, match=f"has no tasks in its split '{split}'"):
        check_before_start(recipe, task_set)


def test_the_keys_in_which_two_recipes_differ_are_named():
    recorded, recipe = Recipe.parse(data()), Recipe.parse(data(train={"steps": 3, "trl": {"epsilon": 0.1}}))
    assert differing_keys(recorded, recipe) == [
        "train.steps was 100, now 3",
        "train.trl.epsilon was None, now 0.1",
    ]


@pytest.mark.skipif(
    find_spec("ray") is None and not os.environ.get("AGENTGYM_CI_RAY"),
    reason="Ray is not installed: make setup-cluster",
)
@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense"])
def test_a_cluster_that_is_not_there_is_named_and_no_folder_is_written(tmp_path, address):
    """So the same command works once the address is right."""
    recipe = Recipe.parse(data(machine={"engine": "ray", "address": address}))
    with pytest.raises(ClusterError, match=rf"usable Ray cluster at '{address}' .* address as machine.address"):
        train(recipe, folder=tmp_path / "run", console=Console(file=io.StringIO()))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("gather", ["refined", "guided(source='feedback')"])
def test_a_gatherer_that_reads_feedback_is_refused_where_no_reward_has_any(gather):
    chosen = with_sections(train={"gather": [gather]})
    with pytest.raises(RecipeError, match=r"which judges .* has no `feedback`\. Add one that has, such as"):
        check_before_start(chosen, chosen.tasks.load())


class AnotherSuccess(Reward):
    """Gives a component that the environment's own reward gives, too."""

    def outcome(self, episode):
        return {"success": 1.0}


def test_two_rewards_with_one_component_are_refused_before_the_run():
    register("test_another_success", AnotherSuccess, kind="rewards")
    chosen = with_sections(reward={"also": ["test_another_success"]})
    with pytest.raises(RecipeError, match=r"the reward cannot judge the oracle's episode .*\. RewardError: .*success"):
        check_before_start(chosen, chosen.tasks.load())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("co_reward", "does not draw together the tasks that the reward compares"),
        ("patch_similarity", r"cannot judge .*\. JudgeError: .* truth\['patch'\]"),
    ],
)
def test_a_reward_that_cannot_judge_the_oracle_is_refused_before_the_run(name, message):
    chosen = with_sections(reward={"name": name})
    with pytest.raises(RecipeError, match=message):
        check_before_start(chosen, chosen.tasks.load())


def with_sections(**sections) -> Recipe:
    return Recipe.parse({"name": "x", "tasks": {"set": lookup_environment.NAME}, "policy": {"tiny": {}}, **sections})
