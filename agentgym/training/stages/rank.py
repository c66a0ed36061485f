"""Ranking: the policy learns to give the better episodes of a task the higher log-probability."""

from __future__ import annotations

from functools import partial

from agentgym.errors import RecipeError
from agentgym.task import TaskSet
from agentgym.training.preferences.losses import RankLoss
from agentgym.training.preferences.scored_rows import ScoredRow
from agentgym.training.preferences.trainer import RowGroup
from agentgym.training.recipe.stage_options import RankSection
from agentgym.training.selection import groups_of, score_of
from agentgym.training.stages.compare import COMPARED, check_compares, check_learner, learn
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import PlannedStage, define_stage
from agentgym.training.stages.episode_manifest import EpisodeSet, Row
from agentgym.trajectory import Trajectory


def _check_episodes(stage: PlannedStage, task_set: TaskSet, trajectories: list[Trajectory]) -> None:
    _ranked(stage.name, stage.section, trajectories)


@define_stage(options=RankSection, checkpoint=COMPARED, check=check_compares, check_episodes=_check_episodes)
def rank_stage(context: RunContext, learner: Learner, options: RankSection) -> Learner:
    """Learns the order of the episodes of each task, and imitates the best one: RRHF."""
    check_learner(context, learner)
    chosen = context.processes.share(lambda: _chosen(context, learner, options))
    groups = [
        RowGroup(
            [ScoredRow.mean_of(chosen.episodes[episode]) for episode in row["episodes"]],
            [0.0] * len(row["episodes"]),
            row["scores"],
        )
        for row in chosen.rows
    ]
    return learn(context, learner, groups, RankLoss(options.imitation_weight), options)


def _chosen(context: RunContext, learner: Learner, options: RankSection) -> EpisodeSet:
    recorded = options.model_dump(include={"score", "max_candidates"})
    choose = partial(_ranked, context.stage, options)
    return context.stored_episodes.choose(learner.renderer, options, choose, options=recorded)


def _ranked(stage: str, options: RankSection, trajectories: list[Trajectory]) -> tuple[list[Row], list[Trajectory]]:
    """Return each task's best and worst episodes, best first. Raises: RecipeError if no task's scores differ."""
    rows: list[Row] = []
    ranked_episodes: list[Trajectory] = []
    for group in groups_of(trajectories):
        ranked = sorted(group, key=lambda trajectory: -score_of(trajectory, options.score))
        if len(ranked) > options.max_candidates:
            high = (options.max_candidates + 1) // 2
            ranked = ranked[:high] + ranked[high - options.max_candidates :]
        scores = [score_of(trajectory, options.score) for trajectory in ranked]
        if len(set(scores)) > 1:
            rows.append({"episodes": [trajectory.id for trajectory in ranked], "scores": scores})
            ranked_episodes += ranked
    if not rows:
        raise RecipeError(
            f"The stage {stage!r} has nothing to rank: among {len(trajectories)} episodes no two of a task differ in "
            "score. Collect more episodes of each task."
        )
    return rows, ranked_episodes
