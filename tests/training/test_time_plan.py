"""A run says how long it will take before it begins, and the estimate changes nothing of what the run does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import lookup_environment  # noqa: F401 - registers the tasks
import pytest
from lookup_runs import RECIPE, SMALL, assert_equal_weights
from staged_runs import finished, run

from agentgym.policy import make_model, make_tokenizer
from agentgym.policy.checkpoint import save_atomically
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe
from agentgym.training import run as run_module
from agentgym.training.stages.plan import planned_stages
from agentgym.training.stages.time_plan import Lengths, RunWork, Speeds, budgeted, work_of

NOTE = re.compile(
    r"Time: about \S.* if episodes are as long as the oracle's \(\d+ tokens\), about \S.* if every episode uses up "
    r"its budgets\. Measured: [\d,]+ tokens a second read, [\d,]+ written by 8 episodes at once, [\d,]+ learned from\."
)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Recipe:
    folder = tmp_path_factory.mktemp("base") / "model"
    tokenizer = make_tokenizer(["press the button"], 300)
    save_atomically(make_model(tokenizer, hidden=32, layers=2, heads=2, kv_heads=1), tokenizer, folder)
    data = json.loads(json.dumps(RECIPE | SMALL))
    data["policy"] = {"path": str(folder)}
    data["train"] |= {"steps": 2, "tasks_per_step": 2, "group_size": 4, "validate_every": 1}
    return Recipe.parse(data)


@pytest.fixture(scope="module")
def done(recipe, tmp_path_factory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("estimated") / "run"
    return folder, run(recipe, folder)


def test_a_run_of_a_pretrained_model_says_its_time_before_its_first_phase(done):
    lines = done[1].splitlines()
    matches = [number for number, line in enumerate(lines) if NOTE.fullmatch(line.strip())]
    assert len(matches) == 1
    assert not any("held-out" in line or "warm start" in line for line in lines[: matches[0]])


def test_a_resumed_run_does_not_measure_again(recipe, done):
    assert "Time:" not in run(recipe, done[0], resume=True)


def test_the_estimate_changes_nothing_of_the_run(recipe, done, tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "time_notes", lambda *_: iter(()))
    assert "Time:" not in run(recipe, tmp_path / "run")
    assert_equal_weights(done[0], tmp_path / "run")
    first, second = (RunFolder.existing(folder).metrics("train") for folder in (done[0], tmp_path / "run"))
    assert [row["loss"] for row in first] == [row["loss"] for row in second]


def test_the_work_is_what_the_run_plays(recipe, done):
    work = work_of(planned_stages(recipe), SimpleNamespace(task_set=recipe.tasks.load()))
    trained, measured, validated, imitated = 2 * 2 * 4, 2, 2 + 1, 2 * 4
    assert work == RunWork(
        2 * 2 + measured + validated, trained + measured + validated, 2 * 2 + imitated, trained + imitated
    )
    assert finished(done[0], "held-out") == measured
    assert sum(finished(done[0], label) for label in ("train", "held-out")) == trained + measured


def test_time_is_work_over_speed():
    speeds = Speeds(read=100.0, written=10.0, learned=50.0, episode_s=0.5)
    lengths = Lengths(prompt=200.0, written=30.0, results=20.0)
    assert RunWork(prompts_played=1).seconds(lengths, speeds) == pytest.approx(2.0)
    assert RunWork(episodes_played=1).seconds(lengths, speeds) == pytest.approx(0.5 + 3.0 + 0.2)
    assert RunWork(prompts_learned=1).seconds(lengths, speeds) == pytest.approx(4.0)
    assert RunWork(episodes_learned=1).seconds(lengths, speeds) == pytest.approx(1.0)


def test_an_episode_of_its_budgets_has_all_the_tokens_that_the_recipe_allows(recipe):
    episode = recipe.episode
    longest = budgeted(episode, 50)
    assert longest.written == min(episode.max_turns * episode.max_turn_tokens, episode.max_episode_tokens)
    assert longest.written + longest.results == episode.max_episode_tokens
