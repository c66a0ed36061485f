"""The whole episodes that a stage learns from, as its manifest records them."""

from __future__ import annotations

from agentgym.training.recipe.stage_options import StoredEpisodesSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.episode_manifest import Row, episode_set
from agentgym.trajectory import Trajectory


def stored_episodes(context: RunContext, learner: Learner, options: StoredEpisodesSection) -> list[Trajectory]:
    """The valid episodes of the stage's sources, those of its manifest where it has one.

    Raises: RecipeError if there is none, or one has changed since.
    """

    def choose(trajectories: list[Trajectory]) -> tuple[list[Row], list[Trajectory]]:
        valid = [trajectory for trajectory in trajectories if trajectory.valid]
        return [{"episode": trajectory.id} for trajectory in valid], valid

    chosen = episode_set(context, learner.renderer, choose, earlier_rounds=options.earlier_rounds)
    return [chosen.episodes[row["episode"]] for row in chosen.rows]
