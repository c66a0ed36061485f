"""Stages that learn from stored episodes: what they learn, how they resume, and what is refused at the start."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from agentgym.errors import RecipeError
from agentgym.evaluation.record import Evaluation
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe, train
from agentgym.training.recipe.preflight import check_before_start

sys.path.insert(0, str(Path(__file__).parent))
import lookup_environment
from test_run import RECIPE, assert_equal_weights

COLLECT = {"kind": "reinforce", "name": "collect", "options": {"steps": 1, "learning_rate": 1e-12}}
"""Plays 64 episodes with a policy that does not change."""


def pressing(*stages: dict, warm_start_steps: int = 5) -> Recipe:
    """With 320 steps imitates both players of the two buttons, so that the right one is pressed half of the time."""
    data = json.loads(json.dumps(RECIPE))
    data["tasks"]["set"] = lookup_environment.PRESS
    data["warm_start"] |= {"imperfect_oracle": 0.5, "steps": warm_start_steps, "validate_every": 320}
    data["train"] |= {"tasks_per_step": 8, "group_size": 8, "validate_tasks": 1}
    data["evaluate"]["group_size"] = 4
    data["stage"] = [{"kind": "imitate"}, COLLECT, {"kind": "evaluate", "name": "before"}, *stages]
    return Recipe.parse(data)


def run(chosen: Recipe, folder: Path, **options) -> None:
    train(chosen, folder=folder, console=Console(file=io.StringIO(), width=200), **options)


def success(folder: Path, name: str) -> float:
    return Evaluation.load(folder / "evaluation" / f"{name}.json").success().value


DIRECT = {
    "kind": "direct_advantage",
    "options": {
        "episodes": "collect-",
        "loss": "quadratic",  # a clip at 0.2 would let the policy move by a fifth and no further
        "beta": 0.1,
        "epochs": 12,
        "learning_rate": 3e-3,
        "batch_size": 16,
        "critic_epochs": 8,
    },
}


FROM = {"episodes": "collect-", "batch_size": 32, "steps": 120, "learning_rate": 3e-3}
GUIDED = [
    {"kind": "implicit_q", "name": "q", "options": {**FROM, "steps": 20}},
    {"kind": "evaluate_guided", "name": "by_q", "options": {"values": "q", "scale": 1.0, "candidates": 5}},
    {"kind": "outcome_head", "name": "outcomes", "options": {**FROM, "bins": 2}},
    {
        "kind": "evaluate_guided",
        "name": "by_outcomes",
        "options": {"values": "outcomes", "scale": 6.0, "candidates": 5},
    },
]
PRESSING = pressing(*GUIDED, DIRECT, {"kind": "evaluate", "name": "after"}, warm_start_steps=320)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("offline") / "run"
    run(PRESSING, folder)
    return folder


def test_direct_advantage_learns_from_stored_episodes_and_plays_none(finished):
    assert success(finished, "before") < 0.7
    assert success(finished, "after") > 0.85
    rows = RunFolder(finished).metrics("direct_advantage")
    assert rows[0]["stored/turns"] >= 60
    assert len(rows) == 1 + 12 * 4


def test_a_policy_is_guided_by_values_of_stored_episodes_without_being_trained(finished):
    """By distributions of outcomes. Action values need more steps than a test has; test_token_values.py shows them."""
    assert success(finished, "by_outcomes") > success(finished, "before") + 0.2
    by_q = Evaluation.load(finished / "evaluation" / "by_q.json")
    assert by_q.policy.endswith("guided by q")
    before, after = (finished / "stages" / stage / "checkpoints" for stage in ("collect", "outcomes"))
    first, second = (load_file(f) for f in (before / "final/model.safetensors", after / "guided/model.safetensors"))
    assert all(torch.equal(value, second[key]) for key, value in first.items())


def test_a_stage_that_was_broken_off_ends_as_it_would_have(finished, tmp_path):
    resumed = tmp_path / "run"
    shutil.copytree(finished, resumed)
    for folder in (resumed / "stages" / "direct_advantage", resumed / "checkpoints"):
        shutil.rmtree(folder)
    (resumed / "evaluation" / "after.json").unlink()
    run(PRESSING, resumed, resume=True)
    assert_equal_weights(finished, resumed)


def test_a_stage_without_an_episode_ends_before_it_trains(tmp_path):
    nothing = {"kind": "direct_advantage", "options": {"episodes": "none-"}}
    with pytest.raises(RecipeError, match="no valid episode of this run begins with 'none-'"):
        run(pressing(nothing), tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runs": ["no/run"]}, r"'direct_advantage': runs: 'no/run' is no run folder"),
        ({"loss": "linear"}, r"'loss' of 'direct_advantage' is 'linear'"),
        ({"kind": "implicit_q", "runs": ["no/run"]}, r"'implicit_q': runs: 'no/run' is no run folder"),
        ({"kind": "evaluate_guided"}, "values = '' names no stage `implicit_q` or `outcome_head` before it"),
        ({"kind": "evaluate_guided", "values": "collect"}, "values = 'collect' names no stage"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(options, message):
    kind = options.get("kind", "direct_advantage")
    stage = {"kind": kind, "options": {key: value for key, value in options.items() if key != "kind"}}
    with pytest.raises(RecipeError, match=message):
        check_before_start(chosen := pressing(stage), chosen.tasks.load())


def test_the_first_stage_has_no_episodes_of_its_own_run_to_learn_from():
    data = pressing().model_dump(exclude_none=True)
    data["stage"] = [{"kind": "direct_advantage"}]
    with pytest.raises(RecipeError, match="is the first stage, so this run holds no episode"):
        check_before_start(chosen := Recipe.parse(data), chosen.tasks.load())


def test_nothing_is_trained_under_a_hook_that_changes_logits():
    data = pressing().model_dump(exclude_none=True)
    data["policy"] |= {"logit_hook": "value_guided", "logit_hook_options": {"path": "runs/none"}}
    with pytest.raises(RecipeError, match="'value_guided' changes the logits, which no record keeps"):
        check_before_start(chosen := Recipe.parse(data), chosen.tasks.load())
