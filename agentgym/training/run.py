"""Execute a recipe: demonstrations, warm start, held-out before, reinforcement, held-out after, report.

Every stage (see agentgym.training.stages) leaves its result in the run folder, complete or not at all. A run that was
interrupted continues with the first stage that has no result, and within reinforcement from the last complete
checkpoint.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch
from rich.console import Console

from agentgym.errors import RecipeError
from agentgym.storage.run_folder import RunFolder
from agentgym.training.recipe import Recipe
from agentgym.training.signals.selection import check_signals_available
from agentgym.training.silence import silence_libraries
from agentgym.training.stages.context import RunContext
from agentgym.training.stages.measure import conclude, measure
from agentgym.training.stages.reinforce import reinforce
from agentgym.training.stages.warm_start import starting_learner


def train(
    recipe: Recipe,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    console: Console | None = None,
) -> RunFolder:
    """Run a whole recipe and return its folder.

    Args:
        folder: where to write, by default runs/<name>.
        resume: continue a run that was interrupted; without it an existing run is an error.
        console: where progress is shown.
    Raises: RecipeError if the folder holds another run; any typed error of the packages that it uses.
    """
    run = RunFolder(folder or Path("runs") / recipe.name).create()
    _write_or_compare_recipe(run, recipe, resume)
    if recipe.machine.threads:
        torch.set_num_threads(recipe.machine.threads)
    context = RunContext.open(run, recipe, console or Console())
    try:
        _run_stages(context)
    finally:
        context.rollouts.close()
    return run


def _run_stages(context: RunContext) -> None:
    recipe, started = context.recipe, time.monotonic()
    if recipe.train.steps:
        check_signals_available(recipe.train.make_estimator(), context.task_set)
    with silence_libraries(), context.progress:
        learner = starting_learner(context)
        measure(context, "before", learner)
        if recipe.train.steps:
            reinforce(context, learner)
        measure(context, "after", learner)
        if recipe.evaluate.control:
            measure(context, "control", learner, recipe.evaluate.control)
    conclude(context, minutes=(time.monotonic() - started) / 60)


def _write_or_compare_recipe(run: RunFolder, recipe: Recipe, resume: bool) -> None:
    """Write the resolved recipe into a new folder, or check that the folder to resume holds the same recipe."""
    file = run.recipe
    if not file.is_file():
        file.write_text(recipe.to_toml(), encoding="utf-8")
        return
    if not resume:
        raise RecipeError(
            f"{run.path} already holds a run. Continue it with --resume, give another folder by --out, or remove it."
        )
    recorded = Recipe.load_recorded(file)
    # How many sandboxes wait ready changes no episode, and its default for Docker was once another.
    same_pool = recorded.episode.model_copy(update={"pool": recipe.episode.pool})
    if recorded.model_copy(update={"episode": same_pool}) != recipe:
        raise RecipeError(
            f"{run.path} holds a run of another recipe: compare {file} with yours. A run is resumed with the recipe "
            "it began with."
        )
