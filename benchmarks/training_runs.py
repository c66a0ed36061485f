"""Trainings that a benchmark compares: a warm start that several share, quiet runs, and intervals over seeds."""

from __future__ import annotations

import asyncio
import io
import resource
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from agentgym import Task, TaskSet
from agentgym.errors import RecipeError
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe

DRAWS = 10_000
COLOURS = (
    "#7f7f7f",
    "#e69f00",
    "#0072b2",
    "#009e73",
    "#d55e00",
    "#cc79a7",
    "#56b4e9",
    "#000000",
    "#b2a000",
    "#8c564b",
    "#4b3f8c",
)
"""Colours of the lines of a plot."""


def train_quietly(recipe: Recipe, folder: Path) -> RunFolder:
    """Train, or continue the run in the folder; a finished run stays unchanged.

    Raises: RecipeError if the folder holds a run of another recipe.
    """
    from agentgym.training import train

    run = RunFolder(folder)
    if run.recipe.is_file() and Recipe.load_recorded(run.recipe) != recipe:
        raise RecipeError(f"{folder} was run with other settings: give another --out, or remove it.")
    if run.report.is_file():  # it is written last
        return run
    with io.StringIO() as silent:
        return train(recipe, folder=folder, resume=folder.exists(), console=Console(file=silent))


def warm_started(recipe: Recipe, folder: Path) -> Path:
    """Return the checkpoint of a recipe's warm start; it is made once."""
    checkpoint = folder / "checkpoints" / "warm_start"
    if not checkpoint.is_dir():
        train_quietly(recipe, folder)
    return checkpoint


def from_start(data: Mapping[str, Any], start: Path, source: str) -> Recipe:
    """Return the recipe with a warm-started model instead of its own model and warm start."""
    changed = {name: section for name, section in data.items() if name != "warm_start"}
    call_format = data["policy"].get("call_format", "auto")
    return Recipe.parse({**changed, "policy": {"path": str(start), "call_format": call_format}}, source)


def play(recipe: Recipe, checkpoint: Path, task_set: TaskSet, tasks: Sequence[Task], group_size: int = 1) -> list[Any]:
    """Return the valid trajectories of a saved model on tasks, played as in the recipe."""
    from agentgym import EpisodeManager
    from agentgym.policy.local import load as load_transformers_policy
    from agentgym.policy.silence import silence_libraries

    with silence_libraries():
        policy = load_transformers_policy(str(checkpoint), call_format=recipe.policy.call_format)
    manager = EpisodeManager(policy, recipe.rollout_config(task_set), label="benchmark")
    trajectories = asyncio.run(manager.collect(tasks, group_size))
    return [trajectory for trajectory in trajectories if trajectory.valid]


def share_first_measurement(folder: Path, siblings: Collection[str] | None = None) -> None:
    """Copy the evaluation before training of a sibling that began with the same weights: it is made once.

    Args:
        siblings: names of the folders beside it that play the same tasks; by default all do.
    """
    measured = sorted(folder.parent.glob("*/evaluation/before.json"))
    measured = [file for file in measured if siblings is None or file.parts[-3] in siblings]
    if measured and not folder.exists():
        (folder / "evaluation").mkdir(parents=True)
        shutil.copy(measured[0], folder / "evaluation")


def cpu_s() -> float:
    """Return processor seconds of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and its 95 % percentile-bootstrap interval over seeds."""
    rng, sample = np.random.default_rng(0), np.array(values)
    means = rng.choice(sample, (DRAWS, len(sample))).mean(axis=1)
    return float(sample.mean()), *(float(x) for x in np.quantile(means, [0.025, 0.975]))
