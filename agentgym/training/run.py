"""Execute a recipe: its stages in order, then the report.

Every stage (see agentgym.training.stages) writes its result into the run folder atomically. An interrupted run
continues with the first stage without a result; reinforcement continues from its last complete checkpoint.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from agentgym.errors import RecipeError
from agentgym.options import Section
from agentgym.policy.device import device_of
from agentgym.storage.run_folder import HOLDS_A_RUN, RunFolder
from agentgym.task.task_set import TaskSet
from agentgym.training.checkpoints import copy_linked
from agentgym.training.checks.learning_rates import learning_rate_notes
from agentgym.training.checks.memory_plan import memory_note
from agentgym.training.checks.parts import plan_of
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.extension import depends_on_steps
from agentgym.training.extension import extend as extend_run
from agentgym.training.fit import check_parts
from agentgym.training.model.models import FINAL, load_saved
from agentgym.training.model.sharding import ShardedModel
from agentgym.training.monitoring.silence import silence_libraries
from agentgym.training.monitoring.trackers import tracked
from agentgym.training.processes import Processes
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import PlannedStage
from agentgym.training.stages.measure import conclude
from agentgym.training.stages.plan import planned_stages
from agentgym.training.stages.warm_start import starting_learner


def check_launch(stages: Sequence[PlannedStage], task_set: TaskSet, processes: Processes) -> None:
    """Check that only `machine.sharding` shards the weights, and that there are then several processes.

    Raises: RecipeError with the reason and the remedy.
    """
    options = {key for stage in stages for key in stage.recipe.train.trl}
    is_sharded = any(stage.recipe.machine.sharding is not None for stage in stages)
    if _is_set("ACCELERATE_USE_DEEPSPEED") or "deepspeed" in options:
        raise RecipeError(
            "DeepSpeed is not supported. To shard the weights over the processes, set machine.sharding = 'fsdp' and "
            "start the run with torchrun."
        )
    if given := sorted({"fsdp", "fsdp_config"} & options):
        raise RecipeError(
            f"[train.trl] {given[0]} is not supported: set machine.sharding = 'fsdp' to shard the weights, and leave "
            "this key out."
        )
    if not is_sharded and _is_set("ACCELERATE_USE_FSDP"):
        raise RecipeError(
            "accelerate was started with FSDP, but the recipe does not shard the weights. Set machine.sharding = "
            "'fsdp', or start the processes with torchrun."
        )
    for stage in stages if is_sharded else ():
        check_parts([ShardedModel()], plan_of(stage, task_set, processes))


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "false").lower() in ("1", "true")


def train(
    recipe: Recipe,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    extend: bool = False,
    console: Console | None = None,
) -> RunFolder:
    """Run a whole recipe and return its folder. All processes started by torchrun call this function together.

    Args:
        folder: where to write; by default runs/<name>.
        resume: continue an interrupted run; without `resume`, an existing run is an error.
        extend: continue an interrupted or finished run to more `train.steps`. The result equals a run with that many
            steps from the start, unless a schedule depends on the number of steps, in which case a note is printed.
        console: where progress is shown.
    Raises: RecipeError if the folder holds another run; any typed error of the stages.
    """
    run = RunFolder(folder or Path("runs") / recipe.name)
    processes = Processes.joined(device_of(recipe.machine.device))
    console = (console or Console()) if processes.is_first else Console(quiet=True)
    task_set = recipe.tasks.load()

    def prepare() -> None:
        check_launch(planned_stages(recipe), task_set, processes)
        if not run.recipe.is_file():  # a run that has begun was checked at its start
            check_before_start(recipe, task_set, processes)
            if plan := memory_note(recipe, processes.count):
                note, fits = plan
                console.print(note, style="dim" if fits else "yellow", markup=False, soft_wrap=True)
            for note in learning_rate_notes(recipe):
                console.print(note, style="yellow", markup=False, soft_wrap=True)
        _write_or_compare_recipe(run.create(), recipe, resume or extend, steps_may_differ=extend)
        if extend:
            extend_run(run, Recipe.load_recorded(run.recipe), recipe)
            for dependency in depends_on_steps(recipe.train, recipe.make_reward(task_set), task_set):
                note = (
                    f"{dependency} follows the number of steps: a run of {recipe.train.steps} from the start differs."
                )
                console.print(note, style="yellow", markup=False, soft_wrap=True)

    processes.share(prepare)
    if recipe.machine.threads:
        torch.set_num_threads(recipe.machine.threads)
    stages = planned_stages(recipe)
    state_keys = any(stage.recipe.rollout_config(task_set).state_keys for stage in stages)
    context = RunContext.open(run, recipe, task_set, console, processes, state_keys=state_keys)
    warn = partial(console.print, style="yellow", markup=False, soft_wrap=True)
    try:
        with tracked(recipe.track if processes.is_first else (), run.path, recipe.model_dump(mode="json"), warn) as log:
            run.listeners.append(log)
            _run_stages(context, stages)
    finally:
        context.close()
    processes.leave_at_exit()
    return run


def _run_stages(context: RunContext, stages: Sequence[PlannedStage]) -> None:
    """Run the stages after the last one with a checkpoint, starting from that checkpoint."""
    started = time.monotonic()
    is_done = context.processes.share(lambda: [stage.is_done(context) for stage in stages])
    first = len(stages) - is_done[::-1].index(True) if any(is_done) else 0
    context.processes.share(lambda: _check_earlier(context, stages[:first]))
    with silence_libraries(), context.progress:
        learner = _learner_of(context, stages[first - 1]) if first else starting_learner(context)
        for stage in stages[first:]:
            learner = stage.run(context, learner)
            context.processes.share(partial(stage.mark, context))
            if context.recipe.machine.sharding and stage.stage.checkpoint is not None:
                learner = _learner_of(context, stage)  # the stage's own model is sharded
    context.processes.share(lambda: _publish_final(context, stages))
    evaluations = [stage.name for stage in stages if stage.kind == "evaluate" and stage.name != "zero_shot"]
    context.processes.share(lambda: conclude(context, (time.monotonic() - started) / 60, evaluations))


def _check_earlier(context: RunContext, stages: Sequence[PlannedStage]) -> None:
    """Raise RecipeError if a result of these stages is missing, though the last stage is done."""
    for stage in stages:
        result = stage.result(context)
        if result is not None and not result.exists():
            raise RecipeError(
                f"{context.folder.path} cannot be resumed: the stage {stage.name!r} has no result ({result} is "
                f"missing), but the later stage {stages[-1].name!r} has one. Restore the missing folder, or start the "
                "run anew in another folder (--out)."
            )


def _learner_of(context: RunContext, done: PlannedStage) -> Learner:
    """Load the learner from a finished stage's checkpoint."""
    own = done.context(context)
    assert done.stage.checkpoint is not None
    return own.learner(
        *load_saved(own.recipe.policy, own.folder.checkpoints / done.stage.checkpoint, own.weights_device)
    )


def _publish_final(context: RunContext, stages: Sequence[PlannedStage]) -> None:
    """Copy the checkpoint of the last stage that trains to checkpoints/final, where every run has its result."""
    for stage in stages:  # a killed run may lack some marks
        stage.mark(context)
    last = next((stage for stage in reversed(stages) if stage.stage.checkpoint and stage.has_folder), None)
    if last is not None:
        context.folder.checkpoints.mkdir(exist_ok=True)
        trained = last.context(context).folder.checkpoints / str(last.stage.checkpoint)
        copy_linked(trained, context.folder.checkpoints / FINAL)


def _write_or_compare_recipe(run: RunFolder, recipe: Recipe, resume: bool, *, steps_may_differ: bool = False) -> None:
    """Write the resolved recipe into a new folder, or check that the folder to resume holds the same recipe."""
    file = run.recipe
    if not file.is_file():
        file.write_text(recipe.to_toml(), encoding="utf-8")
        return
    if not resume:
        raise RecipeError(HOLDS_A_RUN.format(run.path))
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
