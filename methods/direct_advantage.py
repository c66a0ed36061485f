"""Direct advantage: train first a critic of steps and then the policy on stored turns, without playing new episodes for
the policy.

Source: Liu et al. 2024, arXiv:2412.18279.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from agentgym import CreditError, PolicyError, RecipeError, Trajectory
from agentgym.options import Count, Positive, Share
from agentgym.training.stages import Learner, ReadsEpisodes, RunContext, define_stage

from .signals.replays import MonteCarloContinuations
from .signals.turn_scorer import TokenPositions, TurnScorer
from .stored_turns.transitions import ReturnSpec, StoredEpisode, TurnTransition
from .stored_turns.turn_logprobs import batches, token_logprobs

Array = NDArray[np.float64]
NAME = "direct_advantage"


class DirectAdvantageSection(ReadsEpisodes):
    """Options of `direct_advantage`: learning from stored turns, which are not played again."""

    reads_last_player: ClassVar[bool] = True

    continuations: Annotated[int, Field(ge=0)] = 0
    """How many episodes the policy continues from each turn, to train the critic. With 0 the critic learns from how
    the stored episodes themselves ended."""
    critic_epochs: Count = 4
    """How many passes over the turns fit the critic, which is frozen afterwards."""
    critic_learning_rate: Positive = 1e-3
    """The learning rate of the critic."""
    loss: Literal["clipped", "quadratic"] = "clipped"
    """`clipped` bounds the ratio of probabilities; `quadratic` moves a turn towards a target."""
    clip: Share = 0.2
    """With `clipped`, how far the ratio of a turn's probabilities may differ from 1."""
    beta: Positive = 1.0
    """With `quadratic` a turn moves by its advantage / `beta` in nats."""
    epochs: Count = 1
    """How many passes over the turns train the policy."""
    batch_size: Count = 32
    """How many turns each optimiser step of the policy uses."""
    learning_rate: Positive = 1e-4
    """The learning rate of the policy."""


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
    stored = list(context.stored_episodes.choose(learner.renderer, options).episodes.values())
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
    learner.save(context.folder.checkpoints / NAME)


def _check_sampled(context: RunContext, stored: Sequence[Trajectory]) -> None:
    """Raise RecipeError if an episode lacks the sampling log-probabilities that the loss needs."""
    for trajectory in stored:
        if not any(any(turn.logprobs) for turn in trajectory.turns):
            player = trajectory.provenance.policy or "a player"
            raise RecipeError(
                f"[[stage]] {context.stage!r}: the episode {trajectory.id!r} was played by {player}, which recorded "
                "no log-probabilities of the trained model's tokens, and the loss needs them. Name episodes of this "
                "model, or of one trained from it, or imitate these episodes instead."
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
            f"[[stage]] {context.stage!r}: some continuations have returns outside 0 to 1, but the critic of steps "
            "learns a probability. Use a reward that is only the success, or continuations = 0."
        )
    return labels


class StepCritic:
    """Predict from the tokens before a turn the probability that the episode succeeds.

    Args:
        model: the model whose body is copied. `settings`: the settings of TurnScorer.
    Source: Liu et al. 2024, arXiv:2412.18279 (a critic of steps, trained before and separately from the actor).
    """

    def __init__(self, model: Any, **settings: Any) -> None:
        self._scorer = TurnScorer(model, heads=1, **settings)

    def fit(self, trajectories: Sequence[Trajectory], labels: Sequence[Array]) -> float:
        """Minimise the binary cross-entropy; at the optimum the critic predicts the mean label of each prefix.

        Args:
            labels: one [T] array per trajectory: the eventual success, 0 to 1, as seen from before each turn.
        Returns: the mean loss of the first pass, in nats.
        """
        inputs = [_before_turns(trajectory) for trajectory in trajectories]
        turns = float(np.mean([len(label) for label in labels]))  # one divisor for all: equal weights for prefixes
        device = self._scorer.head.weight.device
        targets = [torch.tensor(label, dtype=torch.float32, device=device) for label in labels]

        def loss_of(row: int, numbers: torch.Tensor) -> torch.Tensor:
            entropy = torch.nn.functional.binary_cross_entropy_with_logits
            return entropy(numbers[:, 0], targets[row], reduction="sum") / turns

        return self._scorer.fit(inputs, loss_of)

    def advantages(self, trajectories: Sequence[Trajectory]) -> list[Array]:
        """Return [T] per trajectory: by how much each turn raises the predicted success.

        After the last turn the actual success is taken.
        """
        rows = self._scorer.read([_before_turns(trajectory) for trajectory in trajectories])
        return [
            np.diff(np.append(1 / (1 + np.exp(-numbers[:, 0])), success_of(trajectory)))
            for trajectory, numbers in zip(trajectories, rows, strict=True)
        ]


def success_of(trajectory: Trajectory) -> float:
    """Return the success of an episode. Raises: CreditError if there is none, or it is not between 0 and 1."""
    success = trajectory.success
    if success is None or not 0 <= success <= 1:
        raise CreditError(
            f"The episode {trajectory.id!r} has success = {success}, but a critic of steps needs a success from 0 to "
            "1. Give the reward an outcome component `success`."
        )
    return success


def success_labels(trajectories: Sequence[Trajectory]) -> list[Array]:
    """Return [T] per trajectory: the trajectory's success, repeated for every turn.

    Raises: CreditError as `success_of`.
    """
    return [np.full(len(trajectory.turns), success_of(trajectory)) for trajectory in trajectories]


def _before_turns(trajectory: Trajectory) -> TokenPositions:
    trajectory.require_one_row("the critic of steps")
    ids, positions = list(trajectory.prompt_ids), []
    for turn in trajectory.turns:
        positions.append(len(ids) - 1)
        ids += [*turn.token_ids, *turn.observation_ids]
    return TokenPositions(ids, positions)


TurnLosses = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""A function that returns the [B] losses of turns, given [B] log-probabilities now (with gradient), [B]
log-probabilities when they were sampled, and [B] advantages.
"""


def clipped_loss(clip: float) -> TurnLosses:
    """Return -min(r A, clip(r, 1 - clip, 1 + clip) A), with r the whole turn's probability ratio, now to when sampled.

    While the policy equals the sampling one, the gradient is the policy gradient with these advantages. Because nothing
    new is sampled, no turn's probability ratio moves much beyond the clip, however long the training.
    Source: PPO, Schulman et al. 2017, arXiv:1707.06347, eq. 7, with the turn as the step.
    """

    def losses(logprobs: torch.Tensor, behaviour: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        ratios = (logprobs - behaviour).exp()
        return -torch.minimum(ratios * advantages, ratios.clamp(1 - clip, 1 + clip) * advantages)

    return losses


def quadratic_loss(beta: float) -> TurnLosses:
    """Return (log r - A / beta)^2, with r as in `clipped_loss`: a turn becomes likelier in proportion to its advantage.

    Turns of any policy can be used, because the target does not depend on who sampled them. If the targets of one
    prefix cannot all be met, because probabilities sum to 1, a turn that was sampled more often comes nearer to its
    target.
    Source: Liu et al. 2024, arXiv:2412.18279, in the form given by summaries. The paper's own weights were not read.
    """

    def losses(logprobs: torch.Tensor, behaviour: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        return (logprobs - behaviour - advantages / beta) ** 2

    return losses


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """The options for training a policy on stored turns.

    Attributes:
        epochs: number of passes over the turns.
        batch_size: number of turns per optimiser step.
        learning_rate: the learning rate.
        max_tokens: a batch is computed in parts of at most this many tokens, with padding.
        temperature: the temperature at which the turns were sampled.
        seed: the seed of the order of the turns.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    max_tokens: int
    temperature: float = 1.0
    seed: int = 0


def train_on_turns(
    model: Any,
    transitions: Sequence[TurnTransition],
    advantages: Sequence[float],
    losses_of: TurnLosses,
    passes: Passes,
    on_step: Callable[[int, float], None],
) -> None:
    """Train a model in place.

    Args:
        advantages: one for each transition.
        on_step: called with the number of each optimiser step, from 1 on, and its loss.
    Raises: PolicyError if the loss is not finite.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=passes.learning_rate, weight_decay=0.0)
    behaviour, goals = (
        torch.tensor(numbers, dtype=torch.float32, device=model.device)
        for numbers in ([t.behaviour_logprob for t in transitions], list(advantages))
    )
    was_training = model.training
    model.eval()  # the turns were sampled without dropout
    for step, drawn in enumerate(_orders(len(transitions), passes), start=1):
        optimiser.zero_grad()
        total = 0.0
        for part in batches([transitions[number] for number in drawn], passes.max_tokens):
            numbers = [int(drawn[index]) for index in part]
            rows = token_logprobs(model, [transitions[number] for number in numbers], temperature=passes.temperature)
            logprobs = torch.stack([row.sum() for row in rows])
            loss = losses_of(logprobs, behaviour[numbers], goals[numbers]).sum() / len(drawn)
            loss.backward()
            total += float(loss.detach())
        if not np.isfinite(total):
            raise PolicyError(f"The loss of step {step} on stored turns is {total}. Lower learning_rate.")
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        on_step(step, total)
    model.train(was_training)


def _orders(count: int, passes: Passes) -> Iterator[np.ndarray]:
    order = np.random.default_rng(passes.seed)
    for _ in range(passes.epochs):
        permutation = order.permutation(count)
        for start in range(0, count, passes.batch_size):
            yield permutation[start : start + passes.batch_size]
