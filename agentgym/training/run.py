"""Executes a recipe: its stages in order, then the report.

Every stage (see agentgym.training.stages) writes its result into the run folder atomically. An interrupted run
continues with the first stage without a result; reinforcement continues from its last complete checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from agentgym.errors import RecipeError
from agentgym.policy.silence import silence_libraries
from agentgym.storage.checkpoints import copy_linked
from agentgym.storage.run_folder import RunFolder
from agentgym.storage.trackers import tracked
from agentgym.training.checks.learning_rates import learning_rate_notes
from agentgym.training.checks.memory_plan import memory_note
from agentgym.training.checks.parts import check_launch
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.extension import depends_on_steps, write_or_compare_recipe
from agentgym.training.extension import extend as extend_run
from agentgym.training.model.models import FINAL, load_saved
from agentgym.training.processes import Processes
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import PlannedStage
from agentgym.training.stages.measure import conclude
from agentgym.training.stages.plan import planned_stages
from agentgym.training.stages.starting_model import starting_learner
from agentgym.training.stages.time_plan import time_notes
from agentgym.trajectory.record import Trajectory


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
        folder: the run folder; by default runs/<name>.
        resume: continue an interrupted run; without `resume`, an existing run is an error.
        extend: continue an interrupted or finished run to more `train.steps`. The result equals a run with that many
            steps from the start, unless a schedule depends on the number of steps, in which case a note is printed.
        console: shows the progress.
    Raises: RecipeError if the folder holds another run; any typed error of the stages.
    """
    run = RunFolder(folder or Path("runs") / recipe.name)
    processes = Processes.joined(recipe.machine.torch_device, recipe.machine.silence_s)
    console = (console or Console()) if processes.is_first else Console(quiet=True)
    task_set = recipe.tasks.load()

    def prepare() -> None:
        stages = planned_stages(recipe)
        check_launch(stages, task_set, processes)
        if not run.recipe.is_file():  # a run that has begun was checked at its start
            check_before_start(recipe, task_set, processes)
            if plan := memory_note(recipe, processes.count):
                note, fits = plan
                console.print(note, style="dim" if fits else "yellow", markup=False, soft_wrap=True)
            if precision := recipe.train.precision_note(recipe.machine.torch_device):
                console.print(precision, style="dim", markup=False, soft_wrap=True)
            for note in learning_rate_notes(stages):
                console.print(note, style="yellow", markup=False, soft_wrap=True)
        write_or_compare_recipe(run.create(), recipe, resume or extend, steps_may_differ=extend)
        if resume or extend:
            run.forget((), 0)  # forgets no row, but adds digests to lines that an older agentgym wrote
        if extend:
            extend_run(run, Recipe.load_recorded(run.recipe), recipe)
            for dependency in depends_on_steps(recipe.train, recipe.make_reward(task_set), task_set):
                note = (
                    f"{dependency} follows the number of steps: a run of {recipe.train.steps} from the start differs."
                )
                console.print(note, style="yellow", markup=False, soft_wrap=True)

    with recipe.episode.accepting():
        processes.share(prepare)
        if recipe.machine.threads:
            torch.set_num_threads(recipe.machine.threads)
        stages = planned_stages(recipe)
        state_keys = any(stage.recipe.rollout_config(task_set).state_keys for stage in stages)
        context = RunContext.open(run, recipe, task_set, console, processes, state_keys=state_keys)
        warn = partial(console.print, style="yellow", markup=False, soft_wrap=True)
        try:
            context.check_sandboxes()
            names = recipe.track if processes.is_first else ()
            with tracked(
                names, run.path, recipe.model_dump(mode="json"), warn, partial(_shown_episodes, context)
            ) as log:
                run.listeners.append(log)
                _run_stages(context, stages, resumed=resume or extend)
        finally:
            context.close()
    processes.leave_at_exit()
    return run


def _shown_episodes(context: RunContext, phase: str) -> list[Trajectory]:
    """Return the episodes of a phase's newest step that trackers show."""
    count, records = context.recipe.track_episodes, context.rollouts.records
    return records.newest(f"{phase}-", count) if count and records is not None else []


def _run_stages(context: RunContext, stages: Sequence[PlannedStage], *, resumed: bool) -> None:
    """Run the stages after the last one with a checkpoint, starting from that checkpoint.

    Args:
        resumed: whether the run began earlier. At its beginning, it says how long it will take.
    """
    started = time.monotonic()
    is_done = context.processes.share(lambda: [stage.is_done(context) for stage in stages])
    first = len(stages) - is_done[::-1].index(True) if any(is_done) else 0
    context.processes.share(lambda: _check_earlier(context, stages[:first]))
    with silence_libraries(), context.progress:
        learner = _learner_of(context, stages[first - 1]) if first else starting_learner(context)
        if not resumed and context.recipe.policy.path is not None:
            for note in context.processes.share(lambda: list(time_notes(stages, context, learner))):
                context.console.print(note, style="dim", markup=False, soft_wrap=True)
        for stage in stages[first:]:
            learner = stage.run(context, learner)
            context.processes.share(partial(stage.mark, context))
            if context.recipe.machine.sharding and stage.stage.checkpoint is not None:
                learner = _learner_of(context, stage)  # the stage's own model is sharded, so a new one is loaded
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
    """Copy the checkpoint of the last stage that trains to checkpoints/final, the place of every run's result."""
    for stage in stages:  # a killed run may lack some marks of adaptation
        stage.mark(context)
    last = next((stage for stage in reversed(stages) if stage.stage.checkpoint and stage.has_folder), None)
    if last is not None:
        context.folder.checkpoints.mkdir(exist_ok=True)
        trained = last.context(context).folder.checkpoints / str(last.stage.checkpoint)
        copy_linked(trained, context.folder.checkpoints / FINAL)
