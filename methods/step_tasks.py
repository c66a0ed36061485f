"""Expert steps as tasks: each turn of a successful episode becomes a task, in which the agent's next action is compared
with the expert's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym import RecipeError, Task, TaskSet, Trajectory, seed_of
from agentgym.options import Count
from agentgym.policy import Renderer
from agentgym.rollout import schemas_of
from agentgym.training.stages import Learner, PlannedStage, ReadsEpisodes, RunContext, define_stage

ENVIRONMENT = "agentgym/step-v1"


class StepTasksSection(ReadsEpisodes):
    """Options of `step_tasks`: every turn of an expert's episode becomes a separate task.

    The expert's episodes are the successful ones of `episodes`, by default the demonstrations.
    """

    max_tasks: Count | None = None
    """How many tasks are made at most. By default every turn gives one."""


def _check(stage: PlannedStage, earlier: Sequence[PlannedStage]) -> None:
    """Raise RecipeError if the recipe's reward would judge the steps; TaskError if there is no oracle to play."""
    if names := stage.recipe.reward.names:
        raise RecipeError(
            f"[[stage]] {stage.name!r} judges the expert's steps by its own reward, action_similarity, but [reward] "
            f"names {names[0]!r}. Leave [reward] out."
        )
    if not stage.sources:
        stage.recipe.tasks.load().player("oracle")


def _check_episodes(stage: PlannedStage, task_set: TaskSet, trajectories: list[Trajectory]) -> None:
    _require_experts(stage.name, _successful(trajectories))


@define_stage(
    options=StepTasksSection,
    has_folder=True,
    makes_tasks=True,
    check=_check,
    check_episodes=_check_episodes,
)
def step_tasks_stage(context: RunContext, learner: Learner, options: StepTasksSection) -> Learner:
    """Makes a task of every turn of an expert's episodes, for a later `reinforce` with `tasks_of`: SRL."""
    context.processes.share(lambda: _make(context, learner.renderer, options))
    return learner


def _make(context: RunContext, renderer: Renderer, options: StepTasksSection) -> None:
    path = context.tasks_file
    if path.is_file():
        return
    _require_experts(context.stage, experts := _experts(context, renderer, options))
    tasks = [task for expert in experts for task in step_tasks(expert)]
    chosen = sorted(tasks, key=lambda task: seed_of(context.recipe.seed, task.id))[: options.max_tasks]
    context.folder.create()
    TaskSet(context.stage, {"train": chosen}).to_jsonl(path)


def _experts(context: RunContext, renderer: Renderer, options: StepTasksSection) -> list[Trajectory]:
    """Return the experts' episodes from the option `episodes` or, without it, from the demonstrations."""

    def choose(trajectories: list[Trajectory]) -> tuple[list[dict[str, Any]], list[Trajectory]]:
        experts = _successful(trajectories)
        return [{"episode": expert.id} for expert in experts], experts

    if not context.sources:
        return _successful(context.demonstrate())
    chosen = context.stored_episodes.choose(renderer, options, choose)
    return [chosen.episodes[row["episode"]] for row in chosen.rows]


def _successful(trajectories: list[Trajectory]) -> list[Trajectory]:
    """Return the first successful episode of each task."""
    by_task: dict[str, Trajectory] = {}
    for trajectory in trajectories:
        if trajectory.valid and (trajectory.success or 0.0) >= 1.0:
            by_task.setdefault(trajectory.task.id, trajectory)
    return list(by_task.values())


def _require_experts(stage: str, experts: Sequence[Trajectory]) -> None:
    if not experts:
        raise RecipeError(
            f"The stage {stage!r} found no successful episode of an expert from which to make tasks. Name the "
            "episodes of a stronger policy, or leave `episodes` out to use the demonstrations."
        )


def step_tasks(expert: Trajectory) -> list[Task]:
    """Make a task of each turn: the conversation before it, the tools, and the expert's message as the truth.

    Source: SRL, Deng et al. 2025, arXiv:2510.25992, section 4.
    """
    expert.require_one_row("the stage of step tasks")
    history, tasks = list(expert.opening), []
    schemas = [dict(schema) for schema in schemas_of(expert)]
    for turn in expert.turns:
        calls = [{"name": call.name, "arguments": call.arguments} for call in turn.message.calls]
        tasks.append(
            Task(
                f"{expert.task.id}-turn-{turn.index}",
                ENVIRONMENT,
                messages=tuple(history),
                parameters={"tools": schemas, "task": expert.task.id, "turn": turn.index},
                truth={"calls": calls, "text": turn.message.text},
                tags=expert.task.tags,
                difficulty=expert.task.difficulty,
            )
        )
        history += [turn.message, *turn.observation()]
    return tasks
