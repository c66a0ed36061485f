"""Stages that learn from stored episodes: what they learn, how they resume, and what is refused at the start."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
from pathlib import Path

import lookup_environment
import pytest
import torch
from lookup_runs import RECIPE, assert_equal_weights
from rich.console import Console
from safetensors.torch import load_file
from staged_runs import finished as episodes_finished
from staged_runs import forget_episodes, killed_run
from transformers import AutoTokenizer

from agentgym.errors import RecipeError
from agentgym.evaluation.record import Evaluation
from agentgym.methods.token_values.conservative_q import mean_value
from agentgym.methods.token_values.networks import load_values
from agentgym.storage.checkpoints import latest_checkpoint
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe, train
from agentgym.training.checks.preflight import check_before_start

COLLECT = {"kind": "reinforce", "name": "collect", "options": {"steps": 1, "optimiser": {"learning_rate": 1e-12}}}
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


def run(chosen: Recipe, folder: Path, **options) -> str:
    output = io.StringIO()
    train(chosen, folder=folder, console=Console(file=output, width=200), **options)
    return output.getvalue()


def success(folder: Path, name: str) -> float:
    return Evaluation.load(folder / "evaluation" / f"{name}.json").success().value


DIRECT = {
    "kind": "direct_advantage",
    "options": {
        "episodes": ["collect"],
        "loss": "quadratic",  # a clip at 0.2 would let the policy move by a fifth and no further
        "beta": 0.1,
        "epochs": 12,
        "learning_rate": 3e-3,
        "batch_size": 16,
        "critic_epochs": 8,
    },
}


FROM = {"episodes": ["collect"], "batch_size": 32, "steps": 120, "learning_rate": 3e-3}
GUIDED = [
    {"kind": "implicit_q", "name": "q", "options": {**FROM, "steps": 20}},
    {"kind": "evaluate_guided", "name": "by_q", "options": {"values": "q", "scale": 1.0, "candidates": 5}},
    {"kind": "conservative_q", "name": "likely_q", "options": {**FROM, "steps": 20}},
    {"kind": "evaluate_reranked", "name": "best_by_q", "options": {"values": "likely_q", "episodes": 3}},
    {"kind": "outcome_head", "name": "outcomes", "options": {**FROM, "bins": 2}},
    {
        "kind": "evaluate_guided",
        "name": "by_outcomes",
        "options": {"values": "outcomes", "scale": 6.0, "candidates": 5},
    },
]
SEGMENTS = {
    "kind": "prefer",
    "name": "segments",
    "options": {
        "episodes": ["collect"],
        "pairs": "segment",
        "max_pairs": 1,
        "branches": 2,
        "steps": 3,
        "save_every": 1,
    },
}
learnt_at_night = pytest.mark.thorough
"""Marks the tests of a run that learns for 25 seconds of a processor. By day test_token_values.py and
test_direct_advantage.py show what is learnt, tests/training/test_stage_resume.py kills stages, and all stages run."""
PRESSING = pressing(*GUIDED, DIRECT, {"kind": "evaluate", "name": "after"}, SEGMENTS, warm_start_steps=320)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("offline") / "run"
    output = run(PRESSING, folder)
    assert all(f"{stage} {steps}/{steps}" in output for stage, steps in (("q", 20), ("outcomes", 120))), "no progress"
    return folder


def test_every_stage_runs_on_stored_episodes(tmp_path):
    stages = [*GUIDED, DIRECT, {"kind": "evaluate", "name": "after"}]
    shorter = {"steps": 2, "epochs": 1, "critic_epochs": 1}
    data = pressing(
        *(
            {**stage, "options": {**options, **{k: shorter[k] for k in shorter.keys() & options.keys()}}}
            for stage in stages
            for options in [stage.get("options", {})]
        )
    ).model_dump(exclude_none=True)
    data["train"] |= {"tasks_per_step": 2, "group_size": 4}
    data["evaluate"] |= {"tasks": 1, "group_size": 1}
    run(Recipe.parse(data), tmp_path / "run")
    measured = {file.stem for file in (tmp_path / "run" / "evaluation").glob("*.json")}
    assert measured == {"before", "by_q", "best_by_q", "by_outcomes", "after"}


@learnt_at_night
def test_direct_advantage_learns_from_stored_episodes_and_plays_none(finished):
    assert success(finished, "before") < 0.7
    assert success(finished, "after") > 0.85
    rows = RunFolder(finished).metrics("direct_advantage")
    assert rows[0]["stored/turns"] >= 60
    assert len(rows) == 1 + 12 * 4


@learnt_at_night
def test_a_policy_is_guided_by_values_of_stored_episodes_without_being_trained(finished):
    """By distributions of outcomes. Action values need more steps than a test has; test_token_values.py shows them."""
    assert success(finished, "by_outcomes") > success(finished, "before") + 0.2
    by_q = Evaluation.load(finished / "evaluation" / "by_q.json")
    assert by_q.policy.endswith("guided by q")
    before, after = (finished / "stages" / stage / "checkpoints" for stage in ("collect", "outcomes"))
    first, second = (load_file(f) for f in (before / "final/model.safetensors", after / "guided/model.safetensors"))
    assert all(torch.equal(value, second[key]) for key, value in first.items())


@learnt_at_night
def test_of_several_episodes_of_a_task_the_one_whose_tokens_are_worth_most_is_measured(finished):
    chosen = Evaluation.load(finished / "evaluation" / "best_by_q.json")
    assert chosen.group_size == 1
    assert episodes_begun(finished, "held-out-best_by_q") == 3 * len(chosen.rows)
    ledger, folder = Ledger(finished / "ledger.sqlite"), finished / "stages" / "likely_q" / "checkpoints" / "guided"
    episodes = list(ledger.trajectories("held-out-best_by_q"))
    ledger.close()
    network = load_values(folder, AutoTokenizer.from_pretrained(folder), "cpu")
    for row in chosen.rows:
        own = {mean_value(network, t): t.success for t in episodes if t.task.id == row.task}
        assert row.observed == [own[max(own)]]


def cut_back(finished: Path, tmp_path: Path, first: str) -> Path:
    """A copy of the finished run, without what a stage and those after it learnt."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    names = ["q", "likely_q", "outcomes", "direct_advantage", "segments"]
    for name in names[names.index(first) :]:
        shutil.rmtree(folder / "stages" / name)
    shutil.rmtree(folder / "checkpoints")
    forget_episodes(folder, "segments-branch")
    return folder


def episodes_begun(folder: Path, label: str) -> int:
    connection = sqlite3.connect(folder / "ledger.sqlite")
    count = connection.execute("SELECT count(*) FROM episode WHERE id LIKE ? || '/%'", (label,)).fetchone()[0]
    connection.close()
    return int(count)


@learnt_at_night
@pytest.mark.parametrize("name", ["direct_advantage", "q", "likely_q", "outcomes"])
def test_a_stage_that_is_killed_while_it_learns_ends_as_it_would_have(finished, tmp_path, name):
    resumed = cut_back(finished, tmp_path, name)
    before = (resumed / "metrics.jsonl").read_bytes()
    killed_run(PRESSING, resumed, lambda: (resumed / "metrics.jsonl").read_bytes() != before)
    assert not list((resumed / "stages" / name).glob("checkpoints/*/model.safetensors")), (
        "it was killed within the stage"
    )
    run(PRESSING, resumed, resume=True)
    assert_equal_weights(finished, resumed)
    first, second = (folder / "stages" / name for folder in (finished, resumed))
    assert (first / "episodes.json").read_text() == (second / "episodes.json").read_text()
    for file in first.glob("checkpoints/*/*.safetensors"):
        unbroken, continued = load_file(file), load_file(second / file.relative_to(first))
        assert all(torch.equal(value, continued[key]) for key, value in unbroken.items()), file


@learnt_at_night
@pytest.mark.parametrize("when", ["while it plays", "while it learns"])
def test_a_stage_of_segments_that_is_killed_ends_as_it_would_have(finished, tmp_path, when):
    resumed = cut_back(finished, tmp_path, "segments")
    steps = resumed / "stages" / "segments" / "checkpoints" / "compared_steps"

    def is_within() -> bool:
        if when == "while it plays":
            return episodes_finished(resumed, "segments-branch") > 0
        return latest_checkpoint(steps) is not None

    killed_run(PRESSING, resumed, is_within)
    assert not (steps.parent / "compared").exists(), "it was killed within the stage"
    run(PRESSING, resumed, resume=True)
    assert_equal_weights(finished, resumed)
    manifests = [(folder / "stages" / "segments" / "episodes.json").read_text() for folder in (finished, resumed)]
    assert manifests[0] == manifests[1]


@pytest.mark.parametrize(("name", "following"), [("by_outcomes", "direct_advantage"), ("best_by_q", "outcomes")])
@learnt_at_night
def test_an_evaluation_by_values_that_is_killed_while_it_plays_measures_what_it_would_have(
    finished, tmp_path, name, following
):
    resumed = cut_back(finished, tmp_path, following)
    file = f"evaluation/{name}.json"
    (resumed / file).unlink()
    forget_episodes(resumed, f"held-out-{name}")
    killed_run(PRESSING, resumed, lambda: episodes_begun(resumed, f"held-out-{name}") > 0)
    assert not (resumed / file).exists(), "it was killed within the stage"
    run(PRESSING, resumed, resume=True)
    first, second = (Evaluation.load(folder / file) for folder in (finished, resumed))
    assert [(row.task, row.observed) for row in first.rows] == [(row.task, row.observed) for row in second.rows]


NO_LIST = "episodes = 'collect-': Input should be a valid list"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("direct_advantage", {"episodes": ["none"]}, "'none', but no earlier stage plays them"),
        ("direct_advantage", {"episodes": ["no/run:train"]}, "the file no/run/ledger.sqlite does not exist"),
        ("direct_advantage", {"episodes": "collect-"}, NO_LIST),
        ("direct_advantage", {"loss": "linear"}, "'clipped' or 'quadratic'"),
        ("implicit_q", {"episodes": ["no/run:train"]}, "the file no/run/ledger.sqlite does not exist"),
        ("outcome_head", {"low": 1.0}, "low = 1.0 must be below high = 1.0"),
        ("outcome_head", {"bins": 1}, "bins"),
        ("evaluate_guided", {}, "must name an earlier stage `implicit_q`, `conservative_q` or `outcome_head`"),
        ("evaluate_guided", {"values": "collect"}, "values = 'collect' must name an earlier stage"),
        ("evaluate_reranked", {}, "values = '' must name an earlier stage `implicit_q` or `conservative_q`"),
        ("evaluate_reranked", {"episodes": 1}, "episodes"),
        ("conservative_q", {"top_p": 0.0}, "top_p"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(kind, options, message):
    with pytest.raises(RecipeError, match=message):
        check_before_start(chosen := pressing({"kind": kind, "options": options}), chosen.tasks.load())


@learnt_at_night
def test_another_run_that_finished_no_such_episode_is_refused_before_anything_starts(finished):
    stage = {"kind": "implicit_q", "options": {"episodes": [f"{finished}:none"]}}
    with pytest.raises(RecipeError, match="that run finished none with this label"):
        check_before_start(chosen := pressing(stage), chosen.tasks.load())


@pytest.mark.parametrize("kind", ["direct_advantage", "implicit_q", "conservative_q", "outcome_head"])
def test_the_first_stage_has_no_episodes_of_its_own_run_to_learn_from(kind):
    data = pressing().model_dump(exclude_none=True)
    data["stage"] = [{"kind": kind}]
    with pytest.raises(RecipeError, match=f"The stage '{kind}' has no episodes to learn from"):
        check_before_start(chosen := Recipe.parse(data), chosen.tasks.load())


def test_direct_advantage_refuses_episodes_of_a_player_without_log_probabilities(tmp_path):
    by_oracle = {"kind": "collect", "name": "by_oracle", "options": {"policy": "oracle", "tasks": 2}}
    data = pressing().model_dump(exclude_none=True)
    data["stage"] = [{"kind": "imitate"}, by_oracle, {"kind": "direct_advantage"}]
    with pytest.raises(RecipeError, match="played by oracle, which recorded no log-probabilities"):
        run(Recipe.parse(data), tmp_path / "run")


def test_nothing_is_trained_under_a_hook_that_changes_logits():
    data = pressing().model_dump(exclude_none=True)
    data["policy"] |= {"logit_hook": "value_guided", "logit_hook_options": {"path": "runs/none"}}
    with pytest.raises(RecipeError, match="'value_guided' changes the logits, which no record keeps"):
        check_before_start(chosen := Recipe.parse(data), chosen.tasks.load())
