"""Measure a recipe's stage times by two runs of three steps."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from agentgym import RecipeError
from agentgym.storage import RunFolder
from agentgym.training import Recipe, train

from .fitting import stage_times_of
from .simulation import StepSchedule
from .stage_times import StageTimes

STEPS = 3


def measure(recipe: Recipe, folder: Path, console: Console) -> StageTimes:
    """Train a recipe for three steps, and again from the same weights with one episode at a time.

    Args:
        folder: holds the runs and `stage_times.json`; earlier measurements are reused.
    Raises: as `train`; RecipeError if the folder is a file, or holds a measurement with other settings; LedgerError if
        nothing can be measured, for example without tokens from the policy.
    """
    if folder.exists() and not folder.is_dir():
        raise RecipeError(f"{folder} is a file. Name a folder for the measurements by --out.")
    file, at_once = folder / "stage_times.json", recipe.episode.concurrency
    together = _short(recipe, at_once)
    recorded = folder / "together" / "recipe.toml"
    if recorded.is_file() and Recipe.load_recorded(recorded) != together:
        raise RecipeError(f"{folder} has measurements of another recipe. Give another --out, or remove it.")
    if file.is_file():
        return StageTimes.load(file)
    console.print(f"Measuring {STEPS} steps with up to {at_once} episodes at once, in {folder}", soft_wrap=True)
    first = _trained(together, folder / "together")
    console.print(f"Measuring {STEPS} steps with one episode at a time")
    second = _trained(_short(recipe, 1, start=first.checkpoints / "warm_start"), folder / "alone")
    schedule = StepSchedule(recipe.train.tasks_per_step, recipe.train.group_size)
    times = stage_times_of(alone=second, together=first, at_once=at_once, schedule=schedule)
    times.save(file)
    return times


def _short(recipe: Recipe, concurrency: int, start: Path | None = None) -> Recipe:
    """Return the recipe shortened to a few synchronous steps on this machine; with `start`, from that model instead of
    a warm start.
    """
    data = recipe.model_dump(exclude_none=True)
    for section, keys in (("train", ("staleness", "group_quorum")), ("machine", ("engine", "address", "nodes"))):
        for key in keys:
            data[section].pop(key, None)
    data["episode"]["concurrency"] = concurrency
    data["machine"]["lockstep"] = False  # otherwise a request would wait for the tools of other episodes
    data["train"] |= {"steps": STEPS, "validate_every": STEPS, "validate_tasks": 1}
    data["train"].pop("until_success", None)
    data["evaluate"] |= {"tasks": 1, "group_size": 1}
    if start is not None and start.is_dir():
        data.pop("warm_start")
        data["policy"] = {"path": str(start), "call_format": recipe.policy.call_format}
    return Recipe.parse(data)


def _trained(recipe: Recipe, folder: Path) -> RunFolder:
    run = RunFolder(folder)
    if run.report.is_file():  # the report is written last
        return run
    with io.StringIO() as silent:
        return train(recipe, folder=folder, resume=folder.exists(), console=Console(file=silent))
