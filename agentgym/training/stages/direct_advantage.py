"""A stage that trains on stored turns: first a critic of steps, then the policy, and nothing is played for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from agentgym.credit.options import Count, PositiveWeight, Share, WholeNumber
from agentgym.errors import CreditError, RecipeError
from agentgym.training.model.models import save_model
from agentgym.training.offline.actor import clipped_loss, quadratic_loss, train_on_turns
from agentgym.training.offline.archive import EpisodeArchive, check_runs, check_tokens
from agentgym.training.offline.step_critic import StepCritic, success_labels, success_of
from agentgym.training.offline.transitions import StoredEpisode
from agentgym.training.signals.replays import MonteCarloContinuations
from agentgym.training.signals.return_spec import ReturnSpec
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import define_stage
from agentgym.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym.training.stages.plan import PlannedStage

NAME = "direct_advantage"


def check_stored_episodes(stage: PlannedStage, earlier: Sequence[PlannedStage]) -> None:
    """Check the runs that a stage reads episodes of, or that a stage before it can have played some.

    Raises: RecipeError naming the stage.
    """
    options = cast("Mapping[str, Any]", stage.options)
    where, runs = f"[[stage]] {stage.name!r}", options.get("runs", [])
    check_runs(f"{where}: runs", runs, options.get("episodes", "train-"))
    if not runs and not earlier:
        raise RecipeError(f"{where} is the first stage, so this run holds no episode: name other runs in `runs`.")


def stored_episodes(context: RunContext, learner: Learner, episodes: str, runs: Sequence[str]) -> list[Trajectory]:
    """The valid episodes of other runs, or of this one, whose id begins with `episodes`.

    Raises: RecipeError if there is none, or if they hold the tokens of another model.
    """
    archive = EpisodeArchive(context.rollouts.ledger, runs, episodes)
    stored = list(archive.of_other_runs() if runs else archive.of_this_run(episodes))
    if not stored:
        raise RecipeError(
            f"[[stage]] {context.stage!r}: no valid episode of this run begins with {episodes!r}. "
            "Put a stage before it that plays some, or name other runs in `runs`."
        )
    check_tokens(stored, learner.renderer)
    return stored


@define_stage(checkpoint=NAME, check=check_stored_episodes)
def direct_advantage_stage(
    context: RunContext,
    learner: Learner,
    *,
    episodes: str = "train-",
    runs: list[str] = [],  # noqa: B006 - options are never changed
    continuations: WholeNumber = 0,
    critic_epochs: Count = 4,
    critic_learning_rate: PositiveWeight = 1e-3,
    loss: Literal["clipped", "quadratic"] = "clipped",
    clip: Share = 0.2,
    beta: PositiveWeight = 1.0,
    epochs: Count = 1,
    batch_size: Count = 32,
    learning_rate: PositiveWeight = 1e-4,
) -> Learner:
    """Learns on stored turns, each rewarded by how much it raised the success that a frozen critic of steps predicts.

    Args:
        episodes: of those, only the ones whose id begins with it. runs: folders of other runs that played them; this
            run, if there is none.
        continuations: the critic learns from so many episodes that the policy plays on from each turn; with 0, from
            how the stored episodes themselves ended.
        critic_epochs, critic_learning_rate: of the critic, which is frozen afterwards.
        loss, clip, beta: see agentgym.training.offline.actor.
        epochs, batch_size, learning_rate: of the policy; a batch is of turns.
    Source: Liu et al. 2024, arXiv:2412.18279.
    """
    processes, checkpoint = context.processes, context.folder.checkpoints / NAME
    processes.share(lambda: context.folder.forget((context.folder.phase("train"),), 0))

    def learn() -> None:
        stored = stored_episodes(context, learner, episodes, runs)
        seed = context.recipe.seed
        critic = StepCritic(learner.model, epochs=critic_epochs, learning_rate=critic_learning_rate, seed=seed)
        labels = _labels_by_continuations(context, learner, stored, continuations) if continuations else None
        critic_loss = critic.fit(stored, labels or success_labels(stored))
        advantages = np.concatenate(critic.advantages(stored))
        with_tokens = [StoredEpisode.of(trajectory, ReturnSpec()) for trajectory in stored]
        phase = context.folder.phase("train")
        context.folder.log(0, phase, **{"critic/loss": critic_loss, "stored/turns": float(len(advantages))})
        temperature = context.recipe.episode.temperature
        train_on_turns(
            learner.model,
            [episode.transition(turn) for episode in with_tokens for turn in range(len(episode))],
            advantages.tolist(),
            clipped_loss(clip) if loss == "clipped" else quadratic_loss(beta),
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            max_tokens=context.recipe.train.microbatch_tokens,
            temperature=1.0 if temperature is None else temperature,
            seed=seed,
            on_step=lambda step, value: context.folder.log(step, phase, loss=value),
        )
        save_model(learner.model, learner.processing_class, checkpoint)

    processes.share(learn)
    return learner


def _labels_by_continuations(
    context: RunContext, learner: Learner, stored: Sequence[Trajectory], samples: int
) -> list[np.ndarray]:
    """[T] mean success of the episodes that were played on from each turn."""
    for trajectory in stored:
        success_of(trajectory)
    provider = MonteCarloContinuations(learner.policy, context.rollouts, samples)
    rows = provider.signals(stored, 0)["continuations"]
    labels = [np.array([np.mean(returns) for returns in row[:-1]]) for row in rows]
    if any((label < 0).any() or (label > 1).any() for label in labels):
        raise CreditError(
            f"[[stage]] {context.stage!r}: some continuations have returns outside 0 to 1, where a critic of steps "
            "learns a probability. Use a reward that is the success alone, or continuations = 0."
        )
    return labels
