"""The warm start: imitation of demonstrations or stored episodes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial

from agentgym import registry
from agentgym.errors import RecipeError
from agentgym.policy.checkpoint import save_model
from agentgym.policy.contract import Renderer
from agentgym.policy.vision_inputs import VisionInputs
from agentgym.storage.checkpoints import latest_checkpoint, step_of
from agentgym.task.task_set import TaskSet
from agentgym.training.demonstrate import tokenise
from agentgym.training.fit import TrainingPlan
from agentgym.training.imitation import Example, ImitationOptions, imitate
from agentgym.training.model.model_failures import DivergenceCallback
from agentgym.training.monitoring.callbacks import LoggingCallback, ValidationCallback
from agentgym.training.recipe.warm_start_section import ADAMW, WarmStartSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import PlannedStage, define_stage
from agentgym.training.stages.measure import validate
from agentgym.training.stages.selection import groups_of, make_selection
from agentgym.training.stages.stored_episodes import EpisodeSet, Row
from agentgym.trajectory.record import Trajectory

DEFAULT_SELECTION = "success"
WARM_START = "warm_start"
"""Name of the checkpoint of a finished warm start."""
STEPS = "warm_start_steps"
"""Name of the folder with the checkpoints from which an interrupted warm start resumes."""


def _check_selection(stage: PlannedStage, earlier: Sequence[PlannedStage]) -> None:
    """Raise RecipeError for an invalid selection."""
    make_selection(stage.section.select or DEFAULT_SELECTION)


def _check_episodes(stage: PlannedStage, task_set: TaskSet, trajectories: list[Trajectory]) -> None:
    _chosen_by(stage.name, stage.section.select or DEFAULT_SELECTION, trajectories)


def whole_model_in_parts(stage: PlannedStage, plan: TrainingPlan) -> str:
    """Exclude an optimiser that needs whole matrices if the weights are sharded."""
    name = stage.section.optimizer
    needs_all = name != ADAMW and getattr(registry.load("optimisers", name), "needs_whole_model", False)
    if plan.hardware.sharding is None or not needs_all:
        return ""
    return (
        f"machine.sharding = {plan.hardware.sharding!r}: warm_start.optimizer = {name!r} needs whole matrices. Leave "
        "it out, for AdamW."
    )


@define_stage(
    section="warm_start",
    checkpoint=WARM_START,
    trains_in_parts=True,
    excludes=(whole_model_in_parts,),
    check=_check_selection,
    check_episodes=_check_episodes,
)
def imitate_stage(context: RunContext, learner: Learner) -> Learner:
    """Imitates the task set's scripted players, or stored episodes, according to [warm_start]."""
    section = context.recipe.warm_start
    assert section is not None  # the plan of the stages sets it
    if not context.sources:
        warm_start(context, section, learner, context.processes.share(lambda: context.demonstrate()))
        return learner
    chosen = context.processes.share(lambda: _selected(context, section, learner.renderer))
    examples = [chosen.episodes[row["episode"]] for row in chosen.rows]
    warm_start(context, section, learner, examples, chosen.rows)
    return learner


def _selected(context: RunContext, section: WarmStartSection, renderer: Renderer) -> EpisodeSet:
    text = section.select or DEFAULT_SELECTION
    choose = partial(_chosen_by, context.stage, text)
    return context.stored_episodes.choose(renderer, section, choose, options={"select": text})


def _chosen_by(stage: str, text: str, trajectories: list[Trajectory]) -> tuple[list[Row], list[Trajectory]]:
    """Return the stored episodes that a stage imitates, with their weights. Raises: RecipeError if none is selected."""
    select = make_selection(text)
    selected = [each for group in groups_of(trajectories) for each in select(group)]
    if not selected:
        raise RecipeError(
            f"The stage {stage!r} has nothing to imitate: select = {text!r} keeps none of {len(trajectories)} "
            "episodes. Choose another `select`, or collect more episodes."
        )
    rows: list[Row] = [
        {"episode": each.episode.id, "weight": each.weight} | ({} if each.turn is None else {"turn": each.turn})
        for each in selected
    ]
    return rows, [each.episode for each in selected]


def warm_start(
    context: RunContext,
    section: WarmStartSection,
    learner: Learner,
    examples: Sequence[Trajectory],
    rows: Sequence[Row] | None = None,
) -> None:
    """Imitate the examples and save the checkpoint. `rows`: the manifest's rows for stored episodes, else None."""
    processes, steps_folder = context.processes, context.folder.checkpoints / STEPS
    logged = ("warm_start", "warm_start_validation")
    processes.share(lambda: context.folder.forget(logged, step_of(latest_checkpoint(steps_folder))))
    bar = context.progress.add_task("warm start", total=section.steps, line_a_note=True)
    shown_metrics = {"loss": "loss", "mean_token_accuracy": "token accuracy"}
    logging = LoggingCallback(context.folder, "warm_start", context.progress, bar, shown_metrics)
    validation = ValidationCallback(
        lambda step: validate(context, learner, step, section.validate_tasks, "warm_start_validation"),
        every=section.validate_every,
        until=section.until_success,
    )
    if section.steps:
        hardware = context.recipe.machine
        imitate(
            learner.model,
            learner.tokenizer,
            _examples(learner, examples, rows),
            ImitationOptions(
                folder=steps_folder,
                steps=section.steps,
                batch_size=section.batch_size,
                learning_rate=section.learning_rate,
                seed=context.recipe.seed,
                microbatch_tokens=section.microbatch_tokens,
                optimizer=section.optimizer,
                save_every=section.save_every,
                gradient_checkpointing=hardware.gradient_checkpointing,
                use_cpu=context.device == "cpu",
                sharding=hardware.sharding,
            ),
            callbacks=[logging, DivergenceCallback("warm start", "warm_start.learning_rate"), validation],
            processes=processes,
            vision_inputs=VisionInputs.of(learner.policy, learner.model),
        )

    def save() -> None:
        save_model(learner.full_model, learner.processing_class, context.folder.checkpoints / WARM_START)
        shutil.rmtree(steps_folder, ignore_errors=True)

    learner.gather()
    processes.share(save)


def _examples(learner: Learner, trajectories: Sequence[Trajectory], rows: Sequence[Row] | None) -> list[Example]:
    """Return the examples from demonstrations, or from the stored episodes that a manifest's rows name."""
    if rows is None:
        return [Example(tokenise(trajectory, learner.renderer)) for trajectory in trajectories]
    return [Example(each, row["weight"], row.get("turn")) for each, row in zip(trajectories, rows, strict=True)]
