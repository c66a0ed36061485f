"""What stages would learn from other runs, read before anything starts: whether there is anything to learn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentgym.task import TaskSet
from agentgym.training.recipe.stage_options import GenerateSection
from agentgym.training.recipe.train_section import TrainSection
from agentgym.training.stages.episode_manifest import check_usable, finished_of
from agentgym.training.stages.episode_sources import LEDGER, EpisodeSource
from agentgym.training.stages.generate import episodes_of_set
from agentgym.training.stages.plan import PlannedStage
from agentgym.training.stages.stored_experts import expert_episodes
from agentgym.trajectory import Trajectory


def check_stored_sources(stages: Sequence[PlannedStage], task_set: TaskSet) -> None:
    """Check the stages all of whose episodes are stored in other runs already.

    Raises: RecipeError where a stage has no episode, one of a task that is not for training or of
        another set, or nothing to learn from.
    """
    read: dict[EpisodeSource, list[Trajectory]] = {}
    for stage in stages:
        if not stage.sources or not all(source.run for source in stage.sources):
            continue
        for source in stage.sources:
            if source not in read:
                read[source] = finished_of(Path(source.run) / LEDGER, source.label)
        trajectories = [trajectory for source in stage.sources for trajectory in read[source]]
        check_usable(stage.name, stage.sources, trajectories)
        if stage.stage.check_episodes is not None:
            stage.stage.check_episodes(stage.name, stage.section, trajectories)
        if isinstance(stage.section, GenerateSection):
            episodes_of_set(stage.name, task_set, trajectories)
        if isinstance(stage.section, TrainSection):
            expert_episodes(stage.name, task_set["train"], trajectories)
