"""[train.experts] `episodes`: stored successes are imitated as played ones are, and what is no expert is refused."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from lookup_runs import assert_equal_weights
from staged_runs import IMITATE, PLAYERS, pressing, run, with_stages

from agentgym import Trajectory
from agentgym.errors import RecipeError
from agentgym.policy import Hermes, TemplateRenderer
from agentgym.policy.checkpoint import load_checkpoint
from agentgym.storage.ledger import Ledger
from agentgym.storage.reader import LedgerReader
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.demonstrate import tokenise

IMITATION = {"expert_sft": {"weight": 1.0, "options": {"phi": False}}}


def taught_by(experts: dict, **options) -> tuple[dict, ...]:
    learn = {"kind": "reinforce", "options": {"steps": 2, "terms": IMITATION, "experts": experts, **options}}
    return (*PLAYERS, IMITATE, learn)


def with_vocabulary(recipe: Recipe, vocabulary: int) -> Recipe:
    data = recipe.model_dump(exclude_none=True)
    data["policy"]["tiny"]["vocabulary"] = vocabulary
    return Recipe.parse(data)


def expert_manifest(folder: Path) -> dict:
    return json.loads((folder / "stages" / "train" / "expert_episodes.json").read_text())


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Path:
    """A run whose training imitates the oracle's episodes that an earlier stage has stored."""
    folder = tmp_path_factory.mktemp("stored") / "run"
    run(pressing(*taught_by({"episodes": ["oracle"]}, save_every=1)), folder)
    return folder


def test_stored_successes_are_imitated_as_played_ones_are(stored, tmp_path):
    run(pressing(*taught_by({"player": "oracle"})), tmp_path / "run")
    assert_equal_weights(stored, tmp_path / "run")
    rows = expert_manifest(stored)["rows"]
    assert len(rows) == 64
    assert all(row["episode"].startswith("oracle/") and row["task"] in row["episode"] for row in rows)
    assert all(row["loss/expert_sft"] > 0 for row in RunFolder(stored).metrics("train"))


def test_a_resumed_run_imitates_the_episodes_of_its_manifest(stored, tmp_path):
    """Of the manifest alone: with half of it the run ends elsewhere."""
    chosen = pressing(*taught_by({"episodes": ["oracle"]}, save_every=1))
    for name, rows in (("all", 64), ("half", 32)):
        folder = tmp_path / name
        shutil.copytree(stored, folder)
        for checkpoint in ("final", "checkpoint-2", "checkpoint-1"):
            for path in folder.rglob(checkpoint):
                shutil.rmtree(path)
        manifest = expert_manifest(folder)
        del manifest["file_digest"]
        manifest["rows"], manifest["episodes"] = manifest["rows"][:rows], manifest["episodes"][:rows]
        (folder / "stages" / "train" / "expert_episodes.json").write_text(json.dumps(manifest))
        run(chosen, folder, resume=True)
    assert_equal_weights(stored, tmp_path / "all")
    with pytest.raises(AssertionError):
        assert_equal_weights(stored, tmp_path / "half")


@pytest.mark.thorough
def test_episodes_that_another_tokenizer_wrote_are_tokenised_anew(stored, tmp_path):
    """The record holds the token ids of the policy that sampled it, which mean something else to this one."""
    theirs = sampled_by_its_policy(stored, tmp_path / "other")
    experts = {"episodes": [f"{tmp_path / 'other'}:oracle"]}
    run(with_vocabulary(pressing(*taught_by(experts)), 320), tmp_path / "run")
    run(with_vocabulary(pressing(*taught_by({"player": "oracle"})), 320), tmp_path / "played")
    assert_equal_weights(tmp_path / "run", tmp_path / "played")
    _, tokenizer = load_checkpoint(tmp_path / "run" / "checkpoints" / "final", device="cpu")
    assert TemplateRenderer(tokenizer, Hermes()).encode(theirs.turns[0].message) != theirs.turns[0].token_ids


def sampled_by_its_policy(run_folder: Path, copy: Path) -> Trajectory:
    """Keep the oracle's episodes with the token ids of a run's policy in another ledger. Returns: the first."""
    reader = LedgerReader(run_folder / "ledger.sqlite")
    _, tokenizer = load_checkpoint(run_folder / "checkpoints" / "final", device="cpu")
    renderer = TemplateRenderer(tokenizer, Hermes())
    episodes = [tokenise(reader.load(name), renderer) for name in reader.finished("oracle/")]
    reader.close()
    copy.mkdir()
    ledger = Ledger(copy / "ledger.sqlite")

    async def keep() -> None:
        for episode in episodes:
            await ledger.finish(episode)

    asyncio.run(keep())
    ledger.close()
    return episodes[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda stored: pressing(*taught_by({"episodes": [f"{stored}:imperfect_oracle"]})), "none of them solved"),
        (
            lambda stored: with_stages(*taught_by({"episodes": [f"{stored}:oracle"]})),
            "64 successes.*none is of the .* tasks that the stage trains on",
        ),
        (
            lambda stored: pressing(*taught_by({"episodes": [f"{stored}:orcle"]})),
            "that run finished none with this label",
        ),
        (lambda stored: pressing(*taught_by({"episodes": ["orcle"]})), "Did you mean 'oracle'"),
        (lambda stored: pressing(*taught_by({"episodes": ["oracle"], "player": "oracle"})), "leave out one of the two"),
        (
            lambda stored: pressing(*taught_by({"episodes": ["oracle"]}, tasks_of="x")),
            "experts.episodes solve the tasks of the task set",
        ),
    ],
)
def test_what_shows_no_task_of_the_training_is_refused_before_anything_starts(stored, make, message):
    with pytest.raises(RecipeError, match=message):
        check(make(stored))


def check(recipe: Recipe) -> None:
    check_before_start(recipe, recipe.tasks.load())


def test_own_episodes_without_a_success_are_an_error_of_the_stage(tmp_path):
    with pytest.raises(RecipeError, match=r"train\.experts\.episodes names 64 episodes, but none of them solved"):
        run(pressing(*taught_by({"episodes": ["imperfect_oracle"]})), tmp_path / "run")
