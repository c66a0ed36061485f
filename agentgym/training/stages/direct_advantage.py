"""A stage that trains on stored turns without playing for the policy: first a critic of steps, then the policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.errors import CreditError, RecipeError
from agentgym.training.model.models import save_model
from agentgym.training.offline.actor import Passes, clipped_loss, quadratic_loss, train_on_turns
from agentgym.training.offline.step_critic import StepCritic, success_labels, success_of
from agentgym.training.recipe.stage_options import DirectAdvantageSection
from agentgym.training.signals.replays import MonteCarloContinuations
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import define_stage
from agentgym.training.stages.stored_episodes import stored_episodes
from agentgym.training.stored_turns.transitions import ReturnSpec, StoredEpisode
from agentgym.trajectory import Trajectory

NAME = "direct_advantage"


@define_stage(options=DirectAdvantageSection, checkpoint=NAME)
def direct_advantage_stage(context: RunContext, learner: Learner, options: DirectAdvantageSection) -> Learner:
    """Learns on stored turns, each rewarded by how much it raised the success that a frozen critic of steps predicts.

    Source: Liu et al. 2024, arXiv:2412.18279.
    """
    context.processes.share(lambda: _learn(context, learner, options))
    return learner


def _learn(context: RunContext, learner: Learner, options: DirectAdvantageSection) -> None:
    phase, seed = context.folder.phase("train"), context.recipe.seed
    context.folder.forget((phase,), 0)
    stored = stored_episodes(context, learner, options)
    _check_sampled(context, stored)
    critic = StepCritic(
        learner.model, epochs=options.critic_epochs, learning_rate=options.critic_learning_rate, seed=seed
    )
    samples = options.continuations
    labels = _labels_by_continuations(context, learner, stored, samples) if samples else success_labels(stored)
    critic_loss = critic.fit(stored, labels)
    advantages = np.concatenate(critic.advantages(stored))
    context.folder.log(0, phase, **{"critic/loss": critic_loss, "stored/turns": float(len(advantages))})
    with_tokens = [StoredEpisode.of(trajectory, ReturnSpec()) for trajectory in stored]
    temperature = context.recipe.episode.temperature
    train_on_turns(
        learner.model,
        [episode.transition(turn) for episode in with_tokens for turn in range(len(episode))],
        advantages.tolist(),
        clipped_loss(options.clip) if options.loss == "clipped" else quadratic_loss(options.beta),
        Passes(
            epochs=options.epochs,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            max_tokens=context.recipe.train.microbatch_tokens,
            temperature=1.0 if temperature is None else temperature,
            seed=seed,
        ),
        lambda step, value: context.folder.log(step, phase, loss=value),
    )
    save_model(learner.model, learner.processing_class, context.folder.checkpoints / NAME)


def _check_sampled(context: RunContext, stored: Sequence[Trajectory]) -> None:
    """Raise RecipeError if an episode lacks the sampling log-probabilities that the loss needs."""
    for trajectory in stored:
        if not any(any(turn.logprobs) for turn in trajectory.turns):
            player = trajectory.provenance.policy or "a player"
            raise RecipeError(
                f"[[stage]] {context.stage!r}: the episode {trajectory.id!r} was played by {player}, which recorded no "
                "log-probabilities in the tokens of the model that is trained, and the loss compares with those. Name "
                "episodes of this model or of one that was trained from it, or imitate these instead."
            )


def _labels_by_continuations(
    context: RunContext, learner: Learner, stored: Sequence[Trajectory], samples: int
) -> list[np.ndarray]:
    """Return [T] mean success of the episodes continued from before each turn."""
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
