"""Stored episodes that a stage learns from unchanged: all valid episodes, or experts' successes."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.errors import RecipeError
from agentgym.task import Task, TaskSet
from agentgym.training.recipe.stage_options import StoredEpisodesSection
from agentgym.training.selection import best_of, groups_of, success
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import PlannedStage
from agentgym.training.stages.episode_manifest import Row, episode_set
from agentgym.trajectory import Trajectory

EXPERTS_MANIFEST = "expert_episodes.json"


def stored_episodes(context: RunContext, learner: Learner, options: StoredEpisodesSection) -> list[Trajectory]:
    """Return the valid episodes of the stage's sources or, if there is a manifest, the manifest's episodes.

    Raises: RecipeError if there is no episode, or an episode has changed since the manifest was written.
    """

    def choose(trajectories: list[Trajectory]) -> tuple[list[Row], list[Trajectory]]:
        valid = [trajectory for trajectory in trajectories if trajectory.valid]
        return [{"episode": trajectory.id} for trajectory in valid], valid

    chosen = episode_set(context, learner.renderer, choose, earlier_rounds=options.earlier_rounds)
    return [chosen.episodes[row["episode"]] for row in chosen.rows]


def expert_episodes(
    stage: str, tasks: Sequence[Task], trajectories: Sequence[Trajectory]
) -> tuple[list[Row], list[Trajectory]]:
    """Select each task's success with the highest return; of equal returns, the shorter episode.

    Args:
        tasks: the training tasks. An episode matches a task if both id and content are equal.
    Raises: RecipeError if no episode is a success, or no success matches a task.
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


def check_experts(stage: PlannedStage, task_set: TaskSet, trajectories: list[Trajectory]) -> None:
    """Check the experts' episodes that a `reinforce` would learn from. Raises: as `expert_episodes`."""
    expert_episodes(stage.name, task_set["train"], trajectories)
