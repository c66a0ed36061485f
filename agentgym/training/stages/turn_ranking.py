"""The credit of every turn of stored episodes, by an estimator, for stages that compare turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.credit import Estimator, estimator
from agentgym.credit.batch import batch_credit_of
from agentgym.errors import CreditError, RecipeError, UnknownNameError
from agentgym.training.recipe.stage_options import PreferSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.trajectory import Trajectory

LEARNT = frozenset({"values", "action_values", "token_values", "contributions"})
"""Signals of a model that must have been fitted to returns before it says anything."""


def ranking_of(options: PreferSection, where: str) -> Estimator:
    """Return the estimator that ranks turns.

    Raises: RecipeError if there is none of that name, or it requires a critic and the stage fits none, or the reverse.
    """
    try:
        ranking = estimator(options.ranking)
    except (UnknownNameError, CreditError) as error:
        raise RecipeError(f"{where}: ranking = {options.ranking!r}. {error}") from error
    learnt = sorted(LEARNT & set(ranking.requires))
    if learnt and options.critic_epochs is None:
        raise RecipeError(
            f"{where}: ranking = {options.ranking!r} requires a critic ({', '.join(learnt)}), and the stage fits none. "
            "Set critic_epochs, or choose a ranking without a critic, such as return_to_go or vine."
        )
    if not learnt and options.critic_epochs is not None:
        raise RecipeError(
            f"{where}: critic_epochs = {options.critic_epochs}, but ranking = {options.ranking!r} asks no critic. "
            "Leave it out, or choose a ranking with a critic, such as turn_gae or sweet_rl."
        )
    return ranking


def turn_credit(
    context: RunContext, learner: Learner, trajectories: Sequence[Trajectory], options: PreferSection
) -> list[np.ndarray]:
    """[T] credit of each trajectory among all episodes of its task; a critic is fitted to them first."""
    ranking = ranking_of(options, context.stage)
    providers = context.signal_providers(learner, ranking)
    for _ in range(options.critic_epochs or 0):
        for provider in providers:
            provider.update(trajectories)
    by_task: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        by_task.setdefault(trajectory.task.id, []).append(index)
    credit: list[np.ndarray] = [np.zeros(0)] * len(trajectories)
    for size in sorted({len(indices) for indices in by_task.values()}):
        batch = [index for indices in by_task.values() if len(indices) == size for index in indices]
        group = [trajectories[index] for index in batch]
        signals = {name: rows for provider in providers for name, rows in provider.signals(group, 0).items()}
        advantages = batch_credit_of(group, ranking, group_size=size, signals=signals, train_version=0).advantages
        for index, values in zip(batch, advantages, strict=True):
            credit[index] = values
    return credit
