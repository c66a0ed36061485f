"""A run over six task sets of different environments that is killed goes on with the same draws and weights."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from lookup_runs import assert_equal_weights, execute, start_training

from agentgym.storage.checkpoints import latest_checkpoint
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe

SOURCES = [
    {"set": "code/chores-v1", "tags": ["horizon_2"]},
    {"set": "sql/session-inprocess-v1", "tags": ["horizon_2"], "weight": 2.0},
    {"set": "search/lookup-v1"},
    {"set": "text/doors-v1", "tags": ["horizon_2"]},
    {"set": "text/number-guess-v1"},
    {"set": "text/wordle-v1"},
]
RECIPE = {
    "name": "six",
    "tasks": {"sources": SOURCES},
    "policy": {"tiny": {"vocabulary": 300, "hidden": 32, "layers": 1, "heads": 2, "kv_heads": 1}},
    "episode": {"max_turns": 2, "max_episode_tokens": 256, "max_turn_tokens": 16},
    "warm_start": {"demonstrations": 24, "steps": 2, "batch_size": 4, "validate_every": 50},
    "train": {
        "steps": 4,
        "tasks_per_step": 4,
        "group_size": 2,
        "save_every": 1,
        "keep_checkpoints": 9,
        "validate_every": 50,
        "sampler": "ucb(over='source')",
        "gather": ["dynamic(max_rounds=2, max_rate=2)"],
    },
    "evaluate": {"tasks": 6},
    "machine": {"device": "cpu", "threads": 1},
}


def recipe() -> Recipe:
    return Recipe.parse(RECIPE)


def draws(folder: Path) -> dict[str, list[str]]:
    """The tasks of the training episodes, in order, by label."""
    ledger = Ledger(folder / "ledger.sqlite")
    tasks: dict[str, list[str]] = {}
    for episode in ledger.trajectories("train-"):
        tasks.setdefault(episode.id.partition("/")[0], []).append(episode.task.id)
    ledger.close()
    return {label: sorted(names) for label, names in tasks.items()}


def columns(folder: Path) -> list[dict[str, float]]:
    """What each training step logged of its tasks and its sampler."""
    rows = RunFolder(folder).metrics("train")
    begins = ("ucb/", "gather/", "success/", "return/", "episodes/")
    return [{name: value for name, value in row.items() if name.startswith(begins)} for row in rows]


@pytest.mark.thorough
def test_a_killed_run_over_six_sets_makes_the_same_draws_and_ends_with_the_same_weights(tmp_path):
    unbroken, killed = tmp_path / "unbroken", tmp_path / "killed"
    execute(recipe(), unbroken)
    process = start_training(recipe(), killed)
    deadline = time.monotonic() + 240
    while not latest_checkpoint(killed / "checkpoints"):  # killed in the middle of a later step
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    assert not (killed / "checkpoints" / "final").exists()
    execute(recipe(), killed, resume=True)
    assert draws(killed) == draws(unbroken)
    assert columns(killed) == columns(unbroken)
    assert_equal_weights(unbroken, killed)
    sources = {name.removeprefix("ucb/") for row in columns(unbroken) for name in row if name.startswith("ucb/")}
    assert sources == {source["set"] for source in SOURCES}
    drawn = {name for row in columns(unbroken) for name in row if name.startswith("success/")}
    assert len(drawn) > 3, "metrics of each set that was drawn"
