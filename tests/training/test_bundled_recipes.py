"""Every bundled recipe: its budgets hold what its players say, and a run of it goes from nothing to the report."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from agentgym.policy import CallFormat, TemplateRenderer, make_model, make_tokenizer
from agentgym.policy.formats.choice import FALLBACK
from agentgym.registry import load
from agentgym.training import Recipe, Rollouts, train
from agentgym.training.demonstrate import demonstrations, tokenise
from agentgym.training.stages.starting_model import texts

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
SMALL = [
    "warm_start.demonstrations=6",
    "warm_start.steps=2",
    "warm_start.batch_size=2",
    "warm_start.validate_every=2",
    "warm_start.validate_tasks=1",
    "train.steps=1",
    "train.tasks_per_step=1",
    "train.group_size=3",
    "train.validate_every=1",
    "train.validate_tasks=1",
    "evaluate.tasks=1",
    "evaluate.group_size=1",
    'machine.device="cpu"',
]
SMALL_TINY = [
    "policy.tiny.hidden=32",
    "policy.tiny.layers=1",
    "policy.tiny.heads=1",
    "policy.tiny.kv_heads=1",
]
AT_NIGHT = {
    *("apps", "delegation", "horizon_web", "mixture", "one_line_bugs", "service", "smollm2_search", "web", "web_desk"),
    *("horizon_chores", "horizon_doors", "horizon_smollm2", "horizon_sql", "locks", "memory", "qwen3_06b", "routing"),
    *("qwen3_8b_lora", "search", "text"),
}
"""Recipes of long episodes or many task sets, and those that train as another one does, on another set or model."""
every_recipe = pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.thorough] if path.stem in AT_NIGHT else [], id=path.stem)
        for path in RECIPES
    ],
)


@pytest.fixture
def playable(path):
    """Skips a recipe, with the environment's own words, where this machine lacks a program that it needs."""
    for name in {task.environment for task in Recipe.load(path).tasks.load()["train"]}:
        if reason := load("environments", name).unavailable_reason():
            pytest.skip(f"{path.stem}: {reason}")


def small(path: Path, folder: Path, settings: Sequence[str] = SMALL) -> Recipe:
    """The recipe with a model of random weights; a pretrained one that it names is replaced by such a checkpoint."""
    if Recipe.load(path, settings).policy.tiny:
        return Recipe.load(path, [*SMALL, *SMALL_TINY])
    tokenizer = make_tokenizer(["which order is the last"])
    make_model(tokenizer, hidden=32, layers=1, heads=1, kv_heads=1, seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Recipe.load(path, [*settings, f"policy.path={json.dumps(str(folder))}"])


@every_recipe
@pytest.mark.usefixtures("playable")
def test_the_first_steps_of_every_recipe_run(path, tmp_path):
    """Its task set has the players and the stratum that it names, and its estimator gets what it requires."""
    recipe = small(path, tmp_path / "model")
    run = train(recipe, folder=tmp_path / "run", console=Console(file=io.StringIO()))
    assert len(run.metrics("warm_start_validation")) == len(run.metrics("train")) == 1
    measured = {file.stem for file in (run.path / "evaluation").glob("*.json")}
    optional = {"control": recipe.evaluate.control, "zero_shot": recipe.evaluate.zero_shot}
    assert measured == {"before", "after", *(name for name, is_asked_for in optional.items() if is_asked_for)}
    assert (run.path / "report.html").stat().st_size > 0


@pytest.mark.needs_namespaces
def test_the_first_steps_on_databases_of_spider_run(tmp_path):
    """As `make real` imports them, with a model of random weights."""
    folder = Path(__file__).parents[2] / "../shared/data/spider_dev_10"
    if not folder.exists():
        pytest.skip("spider_dev_10 is not in ../shared/data")
    with pytest.warns(UserWarning, match="gold queries|split train"):
        spider = load("importers", "spider")(folder, split="train", validation="course_teach", held_out="pets_1")
    spider.to_jsonl(tmp_path / "tasks.jsonl")
    path = Path(__file__).parents[2] / "recipes" / "data" / "spider.toml"
    settings = [line for line in SMALL if not line.startswith("warm_start")]
    recipe = small(path, tmp_path / "model", [*settings, f"tasks.set={json.dumps(str(tmp_path / 'tasks.jsonl'))}"])
    run = train(recipe, folder=tmp_path / "run", console=Console(file=io.StringIO()))
    assert len(run.metrics("train")) == 1
    assert {file.stem for file in (run.path / "evaluation").glob("*.json")} == {"before", "after"}


@every_recipe
@pytest.mark.usefixtures("playable")
def test_what_its_players_say_fits_into_the_budgets_of_every_recipe(path):
    recipe = Recipe.load(path)
    task_set = recipe.tasks.load()
    call_format: CallFormat = load("call_formats", FALLBACK if recipe.policy.path else recipe.policy.call_format)()
    with Rollouts(replace(recipe.rollout_config(task_set), concurrency=4)) as rollouts:
        share = recipe.warm_start.imperfect_oracle if recipe.warm_start else 0.0
        trajectories = demonstrations(rollouts, task_set, 16, imperfect_oracle=share)
    assert len(trajectories) == 16, "the oracle did not solve all of its share within the recipe's turns"
    vocabulary = recipe.policy.tiny.vocabulary if recipe.policy.tiny else 1024  # pretrained ones have longer words
    tokenizer = make_tokenizer(texts(trajectories, call_format), vocab_size=vocabulary)
    renderer = TemplateRenderer(tokenizer, call_format)
    for trajectory in trajectories:
        tokenise(trajectory, renderer)
        after_prompt = len(trajectory.arrays().ids) - len(trajectory.prompt_ids)
        assert after_prompt <= recipe.episode.max_episode_tokens, trajectory.task.id
        assert max(len(turn.token_ids) for turn in trajectory.turns) <= recipe.episode.max_turn_tokens, (
            trajectory.task.id
        )


@every_recipe
def test_the_stratum_of_the_headline_is_held_out(path):
    recipe = Recipe.load(path)
    task_set = recipe.tasks.load()
    headline = [task for task in task_set["held_out"] if recipe.evaluate.stratum in task.tags]
    assert len(headline) >= 50
    assert not any(recipe.evaluate.stratum in task.tags for task in task_set["train"])
