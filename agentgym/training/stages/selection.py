"""Selects the stored episodes, or turns of them, that a stage imitates, and the successes of experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentgym.credit.named_parts import load_named_part
from agentgym.errors import CreditError, RecipeError, UnknownNameError
from agentgym.task.definition import Task
from agentgym.task.task_set import TaskSet
from agentgym.text import counted
from agentgym.training.stages.contract import PlannedStage
from agentgym.training.stages.stored_episodes import Row
from agentgym.trajectory.record import Trajectory


class Selected(NamedTuple):
    """An episode to imitate, the weight of its loss, and the turn to imitate, or None to imitate all turns."""

    episode: Trajectory
    weight: float = 1.0
    turn: int | None = None


Selection = Callable[[Sequence[Trajectory]], list[Selected]]


def make_selection(text: str) -> Selection:
    """Make a selection from its name and options: "best_of(n=2)". Raises: RecipeError."""
    try:
        select = load_named_part("selections", text)
    except (CreditError, UnknownNameError) as error:
        raise RecipeError(f"select = {text!r} cannot be used: {error}") from error
    return lambda group: [Selected(*each) for each in select(group)]


def groups_of(trajectories: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """Return the valid episodes grouped by task, in order of first appearance."""
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if trajectory.valid:
            groups.setdefault(trajectory.task.id, []).append(trajectory)
    return list(groups.values())


EXPERTS_MANIFEST = "expert_episodes.json"


def expert_episodes(
    stage: str, tasks: Sequence[Task], trajectories: Sequence[Trajectory]
) -> tuple[list[Row], list[Trajectory]]:
    """Select each task's success with the highest return; of equal returns, the shorter episode.

    Args:
        tasks: the training tasks. An episode matches a task if both id and content are equal.
    Raises: RecipeError if no episode is a success, or no success matches a task.
    """
    success, best_of = make_selection("success"), make_selection("best_of(n=1)")
    solved = [each.episode for group in groups_of(trajectories) for each in success(group)]
    if not solved:
        raise RecipeError(
            f"The stage {stage!r}: train.experts.episodes names {counted(len(trajectories), 'episode')}, but none "
            "of them solved its task. Name episodes of an expert, such as those of a stage `collect` with policy = "
            "'oracle'."
        )
    content_by_id = {task.id: task.content_key() for task in tasks}
    matching = [episode for episode in solved if content_by_id.get(episode.task.id) == episode.task.content_key()]
    if not matching:
        raise RecipeError(
            f"The stage {stage!r}: train.experts.episodes names {len(solved)} successes (one is of the task "
            f"{solved[0].task.id!r}), but none is of the {len(content_by_id)} tasks that the stage trains on. Name "
            "episodes that were played on the same task set."
        )
    best = [each.episode for group in groups_of(matching) for each in best_of(group)]
    return [{"episode": episode.id, "task": episode.task.id} for episode in best], best


def check_experts(stage: PlannedStage, task_set: TaskSet, trajectories: list[Trajectory]) -> None:
    """Check the experts' episodes that a `reinforce` would learn from. Raises: as `expert_episodes` does."""
    expert_episodes(stage.name, task_set["train"], trajectories)
