"""Ranking: the policy learns to give the better episodes of a task the higher log-probability."""

from __future__ import annotations

from functools import partial
from typing import Any

from agentgym import RecipeError, TaskSet, Trajectory
from agentgym.text import counted
from agentgym.training.stages import Learner, PlannedStage, RowGroup, RunContext, ScoredRow, define_stage

from ..selections import groups_of, score_of
from .comparing import COMPARED, check_compares, check_learner
from .losses import RankLoss
from .options import RankSection

Rows = list[dict[str, Any]]
"""Rows of a manifest."""


def _check_episodes(stage: PlannedStage, task_set: TaskSet, trajectories: list[Trajectory]) -> None:
    _ranked(stage.name, stage.section, trajectories)


@define_stage(options=RankSection, checkpoint=COMPARED, check=check_compares, check_episodes=_check_episodes)
def rank_stage(context: RunContext, learner: Learner, options: RankSection) -> Learner:
    """Learns the order of the episodes of each task, and imitates the best one: RRHF."""
    check_learner(context, learner)
    rows, episodes = context.processes.share(lambda: _chosen(context, learner, options))
    groups = [
        RowGroup(
            [ScoredRow.mean_of(episodes[episode]) for episode in row["episodes"]],
            [0.0] * len(row["episodes"]),
            row["scores"],
        )
        for row in rows
    ]
    loss = RankLoss(options.imitation_weight)
    return RowGroup.train(context, learner, groups, loss, options, checkpoint=COMPARED)


def _chosen(context: RunContext, learner: Learner, options: RankSection) -> tuple[Rows, dict[str, Trajectory]]:
    recorded = options.model_dump(include={"score", "max_candidates"})
    choose = partial(_ranked, context.stage, options)
    chosen = context.stored_episodes.choose(learner.renderer, options, choose, options=recorded)
    return chosen.rows, chosen.episodes


def _ranked(stage: str, options: RankSection, trajectories: list[Trajectory]) -> tuple[Rows, list[Trajectory]]:
    """Return each task's best and worst episodes, best first. Raises: RecipeError if no task's scores differ."""
    rows: Rows = []
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
            f"The stage {stage!r} has nothing to rank: no two of {counted(len(trajectories), 'episode')} are of "
            "one task and differ in score. Collect more episodes of each task."
        )
    return rows, ranked_episodes
