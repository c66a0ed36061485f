"""A turn critic that also learns from stored turns of earlier steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentgym.errors import CreditError
from agentgym.policy.contract import Policy
from agentgym.training.recipe.train_section import ReplaySection
from agentgym.training.rollouts.rollouts import Rollouts
from agentgym.training.signals.critic import Critic
from agentgym.training.signals.turn_scorer import TokenPositions, explained_variance
from agentgym.training.stored_turns.archive import EpisodeArchive, check_tokens
from agentgym.training.stored_turns.store import TransitionStore
from agentgym.training.stored_turns.transitions import ReturnSpec, TurnTransition
from agentgym.training.stored_turns.turn_logprobs import turn_logprobs
from agentgym.trajectory import Trajectory

STORE_FILE = "critic_store.json"
TurnLogprobs = Callable[[Sequence[TurnTransition]], Sequence[float]]
"""A function from transitions to each turn's log-probability under the current policy, in nats."""


class ReplayedCritic(Critic):
    """A `double` Critic that, after each batch, takes `updates` optimiser steps on stored transitions.

    An action value is fitted to r + gamma min V'(next prefix), and a value to min Q'(prefix, turn), where the minimum
    is over two heads, and V', Q' come from the slow copy. The paper draws new turns for the second target. Here stored
    turns are weighted by pi(turn) / mu(turn), the turn's current probability over its probability when sampled: the
    weighted fit is minimised by the current policy's value, whatever policies sampled the turns. Action values need no
    weights, because they are conditioned on the turn.

    Biases: if ratios exceed `max_ratio`, the values belong to a policy between the sampling and the current one,
    proportional to min(max_ratio mu, pi). Without `turn_logprobs`, they belong to the mixture of all policies that
    sampled the stored turns. A turn that no stored policy tried has no weight in either case. V' of the slow copy lags
    behind. `critic/effective_share` is the effective sample size of a batch under the weights, as a fraction.

    Args:
        model, settings: as for Critic; `learning_rate` and `seed` configure the network.
        store: a store of transitions, whose `return_spec` defines the rewards.
        updates: number of optimiser steps after each batch. `batch_size`: number of transitions per step.
        turn_logprobs: the current policy's log-probabilities, for the weights; None sets all weights to 1.
        max_ratio: the maximum weight.
        read_episode: maps an id to the episode's record, to refill the store in a resumed run.
    Source: ArCHer, Zhou et al. 2024, arXiv:2402.19446 (replay, double heads, slow copy). The weights: our own, as in
        V-trace, Espeholt et al. 2018, arXiv:1802.01561, whose truncated ratios have the same limit.
    """

    def __init__(
        self,
        model: Any,
        store: TransitionStore,
        *,
        updates: int,
        batch_size: int = 64,
        turn_logprobs: TurnLogprobs | None = None,
        max_ratio: float = 10.0,
        read_episode: Callable[[str], Trajectory] | None = None,
        **settings: Any,
    ) -> None:
        if updates < 1 or batch_size < 1 or not max_ratio > 0:
            raise ValueError(
                f"updates = {updates}, batch_size = {batch_size} and max_ratio = {max_ratio}: all above 0."
            )
        super().__init__(model, store.return_spec, double=True, **{**settings, "epochs": 1, "batch_size": batch_size})
        self.store, self._updates, self._batch_size = store, updates, batch_size
        self._turn_logprobs, self._max_ratio, self._read_episode = turn_logprobs, max_ratio, read_episode

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Add the batch to the store and learn. Returns: the mean loss and metrics of the store."""
        valid = [t for t in trajectories if t.valid]
        metrics: dict[str, float] = {}
        if valid:
            returns = np.concatenate([self.return_spec.returns_to_go(t) for t in valid])
            predictions = np.concatenate([values[:-1] for values, _ in self._numbers(self.scorer, valid)])
            metrics["critic/explained_variance"] = explained_variance(predictions, returns)
        self.store.add(valid)
        if not len(self.store):
            return {}
        ratios: dict[tuple[str, int], float] = {}  # the policy is the same for all updates
        losses, effective, ages = [], [], []
        for _ in range(self._updates):
            batch = self.store.sample(self._batch_size)
            weights = self._weights(batch, ratios)
            losses.append(self._step(batch, weights))
            effective.append(weights.sum() ** 2 / (len(weights) * (weights**2).sum()) if weights.any() else 0.0)
            ages.append(self.store.newest_version - float(np.mean([transition.version for transition in batch])))
        metrics |= {
            "critic/loss": float(np.mean(losses)),
            "critic/stored": float(len(self.store)),
            "critic/age": float(np.mean(ages)),
            "critic/effective_share": float(np.mean(effective)),
        }
        return {name: value for name, value in metrics.items() if np.isfinite(value)}

    def save(self, folder: Path) -> None:
        """Write the critic's state and the ids of the stored episodes into a checkpoint's folder."""
        super().save(folder)
        (folder / STORE_FILE).write_text(json.dumps(self.store.state()), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        """Restore the state from a checkpoint's folder. Raises: CreditError if the run had no such critic."""
        if not (folder / STORE_FILE).is_file() or self._read_episode is None:
            raise CreditError(f"{folder} holds no critic with a store of transitions: begin the run anew.")
        super().restore(folder)
        self.store.load(json.loads((folder / STORE_FILE).read_text(encoding="utf-8")), self._read_episode)

    def _weights(self, batch: Sequence[TurnTransition], ratios: dict[tuple[str, int], float]) -> np.ndarray:
        """[B] of the values' targets."""
        if self._turn_logprobs is None:
            return np.ones(len(batch))
        unknown = [transition for transition in batch if (transition.episode, transition.turn) not in ratios]
        for transition, logprob in zip(unknown, self._turn_logprobs(unknown) if unknown else (), strict=True):
            log_ratio = min(logprob - transition.behaviour_logprob, np.log(self._max_ratio))
            ratios[transition.episode, transition.turn] = float(np.exp(log_ratio))
        return np.array([ratios[transition.episode, transition.turn] for transition in batch])

    def _step(self, batch: Sequence[TurnTransition], weights: np.ndarray) -> float:
        """Take an optimiser step, and move the slow copy. Returns: the loss."""
        assert self._copy is not None
        inputs = [self._positions_of(transition) for transition in batch]
        rewards = np.array([transition.reward for transition in batch])
        continues = np.array([not transition.done for transition in batch])
        slow = np.stack(self._copy.read(inputs))  # [B, 3, 4]: before the turn, after it, after what followed it
        following = rewards + self.return_spec.gamma * continues * slow[:, 2, :2].min(axis=1)
        targets = np.stack([slow[:, 1, 2:].min(axis=1), following, weights])
        values, actions, weight = torch.tensor(targets, dtype=torch.float32, device=self.scorer.head.weight.device)

        def loss_of(numbers: torch.Tensor) -> torch.Tensor:
            value_errors = ((numbers[:, 0, :2] - values[:, None]) ** 2).mean(1)
            action_errors = ((numbers[:, 1, 2:] - actions[:, None]) ** 2).mean(1)
            return (weight * value_errors + action_errors).mean()

        loss = self.scorer.step(inputs, loss_of)
        self._follow()
        return loss

    def _positions_of(self, transition: TurnTransition) -> TokenPositions:
        """Return the positions of the last token before the turn, in the turn, and before the next turn."""
        privileged = self._privileged_ids(transition.task)
        ids = [*privileged, *transition.ids.tolist()]
        ends = (transition.own_begin, transition.own_end, len(transition.ids))
        return TokenPositions(ids, [len(privileged) + end - 1 for end in ends])


def replayed_critic(
    model: Any,
    policy: Policy,
    section: ReplaySection,
    return_spec: ReturnSpec,
    rollouts: Rollouts,
    *,
    seed: int,
    **settings: Any,
) -> ReplayedCritic:
    """Make the critic for [train.signals.replay], with other runs' episodes in its store.

    Args:
        model, policy: the trained model and its policy. `settings`: of Critic.
    Raises: RecipeError if stored episodes have another model's tokens.
    """
    archive = EpisodeArchive(rollouts.ledger, section.runs, section.label)
    store = TransitionStore(return_spec, capacity=section.capacity, half_life=section.half_life, seed=seed)
    earlier = list(archive.of_other_runs())
    if earlier and policy.renderer is not None:
        check_tokens(earlier, policy.renderer)
    store.add(earlier)
    temperature = 1.0 if rollouts.config.temperature is None else rollouts.config.temperature
    scored = partial(turn_logprobs, model, temperature=temperature, autocast=getattr(policy, "autocast", None))
    return ReplayedCritic(
        model,
        store,
        updates=section.updates,
        batch_size=section.batch_size,
        turn_logprobs=scored if section.weighted else None,
        max_ratio=section.max_ratio,
        read_episode=archive.load,
        follow=section.follow,
        seed=seed,
        **settings,
    )
