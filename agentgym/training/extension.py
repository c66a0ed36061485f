"""Continues a run: checks that a resumed run has its original recipe, or extends a run to more steps.

An extended run continues from its last checkpoint, as if the recipe had had that many steps from the start.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import registry
from agentgym.errors import RecipeError
from agentgym.options import Section
from agentgym.reward.combined import Combined
from agentgym.reward.contract import Reward
from agentgym.storage.checkpoints import latest_checkpoint
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.task.task_set import TaskSet
from agentgym.training.model.models import FINAL, FINAL_ADAPTER
from agentgym.training.monitoring.callbacks import success_reached_at
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.recipe.train_section import TrainSection

_MEASURED_AT_THE_END = ("after", "control")
_CONSTANT = ("constant", "constant_with_warmup")


def extend(run: RunFolder, recorded: Recipe, recipe: Recipe) -> None:
    """Change the number of steps of a run, finished or not, to `recipe.train.steps`. To play the new steps, resume the
    run.

    Measurements at the former end are kept: results as evaluation/after-step-<steps>.json, episodes in the ledger under
    the label held-out-after-step-<steps>. A crash during the change leaves a run that can be resumed or extended.

    Args:
        recorded: the recipe in the run folder. `recipe`: the same recipe with other `train.steps`.
    Raises: RecipeError if the run cannot be extended.
    """
    if recipe.train.steps == recorded.train.steps:
        return
    if recipe.stage:
        raise RecipeError(
            f"--extend works for a run with one training stage, but {run.path} lists its own stages ([[stage]]). To "
            f"train its result further, start a new run with policy.path = {str(run.path)!r}."
        )
    _check_extensible(run, recorded.train, recipe.train)
    _rename_measured(run, f"step-{recorded.train.steps:06d}")
    for name in (FINAL, FINAL_ADAPTER):
        shutil.rmtree(run.checkpoints / name, ignore_errors=True)
    partial = run.recipe.with_suffix(".partial")
    partial.write_text(recipe.to_toml(), encoding="utf-8")
    partial.replace(run.recipe)


def depends_on_steps(train: TrainSection, reward: Reward | str | None, task_set: TaskSet) -> list[str]:
    """List the settings that depend on the number of steps. With one of them, an extended run differs from a run that
    had more steps from the start.

    Args:
        reward: the run's reward; None for each environment's own reward.
    """
    settings = []
    if (schedule := str(train.trl.get("lr_scheduler_type", "constant"))) not in _CONSTANT:
        settings.append(f"[train.trl] lr_scheduler_type = {schedule!r}")
    if 0 < train.trl.get("warmup_steps", 0) < 1:
        settings.append("[train.trl] warmup_steps, a share of all steps,")
    if any(term.schedule or term.warmup for term in train.terms.values()):
        settings.append("a schedule of a loss term")
    if any(isinstance(reward, Combined) and reward.schedules for reward in _rewards(reward, task_set)):
        settings.append("a schedule of the reward")
    return settings


def _check_extensible(run: RunFolder, recorded: TrainSection, train: TrainSection) -> None:
    """Raise RecipeError if this run cannot be extended to these steps."""
    before, now = recorded.steps, train.steps
    if now < before:
        raise RecipeError(
            f"train.steps = {now} is below the recorded {before}: --extend needs more steps than the run already has."
        )
    if "max_steps" in train.trl:
        raise RecipeError(
            f"[train.trl] max_steps = {train.trl['max_steps']!r} overrides train.steps, so --extend has no effect. "
            "Start a new run without max_steps."
        )
    new_run = f"To train its weights further, start a new run with policy.path = {str(run.path)!r}."
    guard = run.path / "guard.json"
    if guard.is_file() and run.read_json("guard.json").get("stopped"):
        raise RecipeError(f"The collapse guard stopped {run.path}, so it cannot be extended. {new_run}")
    if (step := success_reached_at(run, recorded.until_success)) is not None:
        until = recorded.until_success
        raise RecipeError(
            f"{run.path} ended at step {step}, where it reached train.until_success = {until}, so it cannot be "
            f"extended. {new_run}"
        )
    if (run.checkpoints / FINAL).is_dir() and before and latest_checkpoint(run.checkpoints) is None:
        raise RecipeError(
            f"{run.checkpoints} contains no folder checkpoint-*, which would hold the state of the optimiser, so the "
            f"run cannot be extended. {new_run}"
        )


def _rename_measured(run: RunFolder, suffix: str) -> None:
    """Rename the former end's evaluations and episodes, so that the new end does not overwrite them."""
    ledger = Ledger(run.ledger)
    try:
        for when in _MEASURED_AT_THE_END:
            ledger.relabel(f"held-out-{when}", f"held-out-{when}-{suffix}")
            file = run.path / "evaluation" / f"{when}.json"
            if file.is_file():
                evaluation = run.read_json(f"evaluation/{when}.json") | {"label": f"{when}-{suffix}"}
                run.write_json(f"evaluation/{when}-{suffix}.json", evaluation)
                file.unlink()
    finally:
        ledger.close()


def _rewards(reward: Reward | str | None, task_set: TaskSet) -> Sequence[object]:
    environments = dict.fromkeys(task.environment for task in task_set["train"])
    names = [reward] if reward is not None else [registry.prototype(name).reward for name in environments]
    return [registry.load_reward(name) if isinstance(name, str) else name for name in names]


def write_or_compare_recipe(run: RunFolder, recipe: Recipe, resume: bool, *, steps_may_differ: bool = False) -> None:
    """Write the resolved recipe into a new folder, or check that the folder to resume has the same recipe."""
    file = run.recipe
    if not (file.is_file() and resume):
        if message := run.why_not_new():
            raise RecipeError(message)
        file.write_text(recipe.to_toml(), encoding="utf-8")
        return
    recorded = Recipe.load_recorded(file)
    # The pool size changes no episode, and older versions had another default for Docker.
    same_pool = recorded.episode.model_copy(update={"pool": recipe.episode.pool})
    changes = differing_keys(recorded.model_copy(update={"episode": same_pool}), recipe)
    other_changes = [change for change in changes if not change.startswith("train.steps was")]
    if other_changes if steps_may_differ else changes:
        advice = (
            f"A run is resumed with the recipe it began with, {file}. To train its result further, start a new run "
            f"with policy.path = {str(run.path)!r}."
        )
        if not other_changes:
            advice = "To train it for more steps, write --extend instead of --resume."
        raise RecipeError(f"{run.path} was started with another recipe: {'; '.join(changes)}. {advice}")


def differing_keys(recorded: Section, section: Section) -> list[str]:
    """Return the keys in which two recipes, or two of their sections, differ: "train.steps was 2, now 3"."""
    before, now = _flat(recorded.model_dump()), _flat(section.model_dump())
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    return [f"{key} was {before.get(key)!r}, now {now.get(key)!r}" for key in keys]


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested tables into one, with keys such as "train.steps"."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat
