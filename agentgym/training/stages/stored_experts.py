"""Which stored episodes show a training how its tasks are solved: [train.experts] `episodes`."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.errors import RecipeError
from agentgym.task import Task
from agentgym.training.stages.episode_manifest import Row
from agentgym.training.stages.selection import best_of, groups_of, success
from agentgym.trajectory import Trajectory

MANIFEST = "expert_episodes.json"


def expert_episodes(
    stage: str, tasks: Sequence[Task], trajectories: Sequence[Trajectory]
) -> tuple[list[Row], list[Trajectory]]:
    """Of each task the success with the highest return, the shorter one of equals.

    Args:
        tasks: for training. An episode is of one of them if both id and content are the same.
    Raises: RecipeError that says what the episodes lack: a success, or one of these tasks.
    """
    solved = [each.episode for group in groups_of(trajectories) for each in success(group)]
    if not solved:
        raise RecipeError(
            f"The stage {stage!r}: train.experts.episodes names {len(trajectories)} episodes, and none of them solved "
            "its task. Name those of an expert, such as of a stage `collect` with policy = 'oracle'."
        )
    content_by_id = {task.id: task.content_key() for task in tasks}
    matching = [episode for episode in solved if content_by_id.get(episode.task.id) == episode.task.content_key()]
    if not matching:
        raise RecipeError(
            f"The stage {stage!r}: train.experts.episodes names {len(solved)} successes, such as of the task "
            f"{solved[0].task.id!r}, and none is of the {len(content_by_id)} tasks that it trains on. Name "
            "episodes that were played on the same task set."
        )
    best = [each.episode for group in groups_of(matching) for each in best_of(group, n=1)]
    return [{"episode": episode.id, "task": episode.task.id} for episode in best], best
