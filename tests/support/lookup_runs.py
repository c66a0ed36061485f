"""Small trainings in the environment of lookups: the recipe, a run of it, and the weights that it leaves."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import lookup_environment
import torch
from forks import Fork
from rich.console import Console

from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe, train

RECIPE = {
    "name": "lookup",
    "tasks": {"set": lookup_environment.NAME},
    "policy": {"tiny": {"vocabulary": 300, "hidden": 32, "layers": 2, "heads": 2, "kv_heads": 1}},
    "episode": {"max_turns": 4, "max_episode_tokens": 96, "max_turn_tokens": 32},
    "warm_start": {"demonstrations": 64, "steps": 10, "batch_size": 16, "validate_every": 5, "validate_tasks": 8},
    "train": {
        "steps": 4,
        "tasks_per_step": 2,
        "group_size": 4,
        "save_every": 2,
        "validate_every": 2,
        "validate_tasks": 8,
    },
    "evaluate": {"temperature": 1.0},
    "machine": {"device": "cpu", "threads": 1},
}


SMALL = {
    "tasks": {"set": lookup_environment.PRESS},
    "policy": {"tiny": {"vocabulary": 300, "hidden": 32, "layers": 1, "heads": 2, "kv_heads": 1}},
    "episode": {"max_turns": 2, "max_episode_tokens": 24, "max_turn_tokens": 12},
    "warm_start": {"demonstrations": 8, "steps": 2, "batch_size": 4, "validate_every": 9, "validate_tasks": 1},
    "train": {"steps": 1, "tasks_per_step": 1, "group_size": 2, "save_every": 1, "validate_tasks": 1, "kl": 0.05},
    "evaluate": {"tasks": 1},
}
# No episode earns anything here, so weight decay is what moves the weights.
PUSHED = {"trl": {"weight_decay": 0.5}, "optimiser": {"learning_rate": 0.05}}


def recipe(**changes) -> Recipe:
    """Make the recipe with other values: `recipe(train__steps=8)`."""
    data = json.loads(json.dumps(RECIPE))
    for key, value in changes.items():
        section, _, name = key.partition("__")
        data[section][name] = value
    return Recipe.parse(data)


def execute(chosen: Recipe, folder: Path, **options):
    """Train without printing."""
    return train(chosen, folder=folder, console=Console(file=io.StringIO()), **options)


def start_training(chosen: Recipe, folder: Path) -> Fork:
    """Begin a training, or resume it, in a process of its own, which can be killed."""
    return Fork(lambda: execute(chosen, folder, resume=True))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """Load the weights that a run has left."""
    from safetensors.torch import load_file

    return load_file(folder / "checkpoints" / "final" / "model.safetensors")


def assert_equal_weights(first: Path, second: Path) -> None:
    first_weights, second_weights = weights(first), weights(second)
    assert first_weights.keys() == second_weights.keys()
    for name, value in first_weights.items():
        assert torch.equal(value, second_weights[name]), name


def small(*, path: Path | None = None, **train) -> Recipe:
    """Make a recipe of one step, which goes on from a checkpoint where a path is given."""
    data = json.loads(json.dumps(RECIPE | SMALL))
    data["train"] |= train
    if path is not None:
        data["policy"] = {"path": str(path)}
    return Recipe.parse(data)


def kl_of(run: Path) -> dict[int, float]:
    """Read the distance from the reference of each step."""
    return {row["step"]: row["kl"] for row in RunFolder(run).metrics("train")}


def start(count: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in several processes, as the documents say."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(count)]
    command = [*launcher, "-m", "agentgym", "train", *map(str, arguments), "--import", lookup_environment.__file__]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
