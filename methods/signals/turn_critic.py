"""Turn-level critics predict the return from each turn on.

They learn from the returns of each batch, or also from stored turns.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from typing_extensions import override

from agentgym import CreditError, Task, Trajectory
from agentgym.training import TrainingPlan
from agentgym.training.signals import SignalProvider, SignalSources

from ..stored_turns.archive import EpisodeArchive, check_runs, check_tokens
from ..stored_turns.store import TransitionStore
from ..stored_turns.transitions import ReturnSpec, TurnTransition
from ..stored_turns.turn_logprobs import turn_logprobs
from .turn_scorer import TokenPositions, TurnScorer, explained_variance, move_towards

FILE = "critic.pt"
STORE_FILE = "critic_store.json"
TurnLogprobs = Callable[[Sequence[TurnTransition]], Sequence[float]]
"""A function that returns each transition's turn log-probability under the current policy, in nats."""


class Critic(SignalProvider):
    """Compute `values` before each turn (0 after a turn that ended the task) and `action_values` after each turn.

    Args:
        model: the model whose body is copied.
        return_spec: the return to learn, which must be the estimator's.
        double: use the lower of two heads for each number, and temporal-difference targets from a slow copy, as in
            ArCHer. Otherwise use one head, and the returns as targets.
        privileged: maps a task to text that only the critic may read; None for no text.
        encode: maps text to token ids, for `privileged`.
        follow: how far the copy moves towards the network after each batch, 0 to 1.
        settings: the settings of TurnScorer.
    Source: ArCHer, Zhou et al. 2024, arXiv:2402.19446 (double); SWEET-RL, arXiv:2503.15478 (privileged).
    """

    provides: ClassVar[tuple[str, ...]] = ("values", "action_values")
    switches: ClassVar[tuple[str, ...]] = ("double", "privileged", "replay")
    reads_text_only: ClassVar[bool] = True
    reads_one_context: ClassVar[bool] = True
    needs_whole_model: ClassVar[bool] = True

    def __init__(
        self,
        model: Any,
        return_spec: ReturnSpec = ReturnSpec(),  # noqa: B008 - frozen
        *,
        double: bool = False,
        privileged: Callable[[Task], str] | None = None,
        encode: Callable[[str], list[int]] | None = None,
        follow: float = 0.2,
        **settings: Any,
    ) -> None:
        if privileged is not None and encode is None:
            raise ValueError("A privileged critic needs `encode`, a function from text to the model's token ids.")
        self.return_spec, self.follow, self.double = return_spec, follow, double
        self._privileged, self._encode = privileged, encode
        self.scorer = TurnScorer(model, heads=4 if double else 2, **settings)
        self._copy = copy.deepcopy(self.scorer) if double else None

    @classmethod
    @override
    def make(cls, sources: SignalSources) -> Critic:
        """Create the critic; with [train.signals.replay], a ReplayedCritic. Raises: RecipeError."""
        if sources.options.replay is not None:
            return ReplayedCritic.make(sources)
        return cls(
            sources.model,
            ReturnSpec(**sources.return_weights),
            double=sources.options.double,
            privileged=_truth_of if sources.options.privileged else None,
            encode=sources.encode,
            **sources.network_options,
        )

    @classmethod
    @override
    def requires(cls, plan: TrainingPlan) -> Iterator[str]:
        if (replay := plan.train.signals.replay) is None:
            return
        check_runs("train.signals.replay.runs", replay.runs, replay.label)
        if (hook := plan.policy.logit_hook) is not None:
            yield (
                f"policy.logit_hook = {hook!r}: train.signals.replay scores stored turns without masks. Leave out one "
                "of the two."
            )

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, list[Any]]:
        values: list[Any] = [[0.0] * (len(t.turns) + 1) for t in trajectories]
        actions: list[Any] = [[0.0] * len(t.turns) for t in trajectories]
        rows = [row for row, t in enumerate(trajectories) if t.valid]
        for row, numbers in zip(rows, self._numbers(self.scorer, [trajectories[row] for row in rows]), strict=True):
            values[row], actions[row] = numbers[0].tolist(), numbers[1].tolist()
        return {"values": values, "action_values": actions}

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Fit to the batch. Returns: the loss, and the explained variance of the returns before the fit."""
        valid = [t for t in trajectories if t.valid]
        if not valid:
            return {}
        inputs = [self._token_positions(t) for t in valid]
        before = self._numbers(self.scorer, valid)
        returns = [self.return_spec.returns_to_go(t) for t in valid]
        predictions = np.concatenate([value[:-1] for value, _ in before])
        metrics = {"critic/explained_variance": explained_variance(predictions, np.concatenate(returns))}
        slow_values = self._numbers(self._copy, valid) if self._copy is not None else None
        targets = [
            self._targets(t, returns_of_turns, None if slow_values is None else slow_values[row])
            for row, (t, returns_of_turns) in enumerate(zip(valid, returns, strict=True))
        ]
        mean_turns = float(np.mean([len(t.turns) for t in valid]))  # one divisor for all: turns have equal weights
        device = self.scorer.head.weight.device
        target_tensors = [torch.tensor(target, dtype=torch.float32, device=device) for target in targets]

        def loss_of(row: int, numbers: torch.Tensor) -> torch.Tensor:
            count = len(valid[row].turns)
            half = numbers.shape[1] // 2
            state, action = numbers[:count, :half], numbers[count + 1 :, half:]
            target = target_tensors[row]
            errors = (state - target[0][:, None]) ** 2 + (action - target[1][:, None]) ** 2
            return errors.mean(1).sum() / mean_turns

        metrics["critic/loss"] = self.scorer.fit(inputs, loss_of)
        self._follow()
        return {name: value for name, value in metrics.items() if np.isfinite(value)}

    def save(self, folder: Path) -> None:
        """Write the state into a checkpoint's folder."""
        copied = None if self._copy is None else self._copy.state_dict()
        torch.save({"network": self.scorer.training_state(), "copy": copied}, folder / FILE)

    def restore(self, folder: Path) -> None:
        """Restore the state from a checkpoint's folder. An older checkpoint without the file changes nothing."""
        if not (folder / FILE).is_file():
            return
        state = torch.load(folder / FILE, weights_only=True, map_location=self.scorer.head.weight.device)
        self.scorer.load_training_state(state["network"])
        if self._copy is not None:
            self._copy.load_state_dict(state["copy"])

    def _follow(self) -> None:
        """Move the slow copy, if there is one, towards the network."""
        if self._copy is not None:
            move_towards(self._copy, self.scorer, self.follow)

    def _privileged_ids(self, task: Task) -> list[int]:
        """Return the tokens that only the critic may read."""
        if self._privileged is None or self._encode is None:
            return []
        return self._encode(self._privileged(task))

    def _token_positions(self, trajectory: Trajectory) -> TokenPositions:
        """Return the positions: the last token before each turn, the very last token, the last token of each turn."""
        trajectory.require_one_row("the critic")
        ids, states, actions = [*self._privileged_ids(trajectory.task), *trajectory.prompt_ids], [], []
        for turn in trajectory.turns:
            states.append(len(ids) - 1)
            ids += turn.token_ids
            actions.append(len(ids) - 1)
            ids += turn.observation_ids
        return TokenPositions(ids, [*states, len(ids) - 1, *actions])

    def _numbers(self, scorer: TurnScorer, valid: Sequence[Trajectory]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return [T+1] values and [T] action values of each trajectory."""
        values_per_trajectory = []
        for trajectory, numbers in zip(valid, scorer.read([self._token_positions(t) for t in valid]), strict=True):
            count, half = len(trajectory.turns), numbers.shape[1] // 2
            values = numbers[: count + 1, :half].min(axis=1)
            if trajectory.stop_reason is None or not trajectory.stop_reason.truncated:
                values[-1] = 0.0  # the task is over: no reward can follow
            values_per_trajectory.append((values, numbers[count + 1 :, half:].min(axis=1)))
        return values_per_trajectory

    def _targets(
        self, trajectory: Trajectory, returns: np.ndarray, slow_values: tuple[np.ndarray, np.ndarray] | None
    ) -> np.ndarray:
        """Return [2, T] targets: for the value before each turn, and for the turn's action value."""
        if slow_values is None:
            return np.stack([returns, returns])
        values, actions = slow_values
        rewards = self.return_spec.rewards(trajectory)
        return np.stack([actions, rewards + self.return_spec.gamma * values[1:]])


class ReplayedCritic(Critic):
    """A `double` Critic that, after each batch, takes `updates` optimiser steps on stored transitions.

    An action value is fitted to r + gamma min V'(next prefix), and a value to min Q'(prefix, turn), where the minimum
    is over two heads, and V', Q' come from the slow copy. For the second target the paper draws new turns. Here stored
    turns are weighted by pi(turn) / mu(turn), the turn's current probability divided by that when it was sampled. The
    minimum of the weighted fit is the current policy's value, whatever policies sampled the turns. Action values need
    no weights, because they are conditioned on the turn.

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
                f"updates = {updates}, batch_size = {batch_size} and max_ratio = {max_ratio} are not valid: all must "
                "be above 0."
            )
        super().__init__(model, store.return_spec, double=True, **{**settings, "epochs": 1, "batch_size": batch_size})
        self.store, self._updates, self._batch_size = store, updates, batch_size
        self._turn_logprobs, self._max_ratio, self._read_episode = turn_logprobs, max_ratio, read_episode

    @classmethod
    @override
    def make(cls, sources: SignalSources) -> ReplayedCritic:
        """Make the critic of [train.signals.replay], with other runs' episodes in its store.

        Raises: RecipeError if stored episodes have another model's tokens.
        """
        options, rollouts, policy = sources.options, sources.rollouts, sources.policy
        replay = options.replay
        assert replay is not None
        archive = EpisodeArchive(rollouts.ledger, replay.runs, replay.label)
        return_spec = ReturnSpec(**sources.return_weights)
        store = TransitionStore(return_spec, capacity=replay.capacity, half_life=replay.half_life, seed=sources.seed)
        earlier = list(archive.of_other_runs())
        if earlier and policy.renderer is not None:
            check_tokens(earlier, policy.renderer)
        store.add(earlier)
        temperature = 1.0 if rollouts.config.temperature is None else rollouts.config.temperature
        autocast = getattr(policy, "autocast", None)
        scored = partial(turn_logprobs, sources.model, temperature=temperature, autocast=autocast)
        return cls(
            sources.model,
            store,
            updates=replay.updates,
            batch_size=replay.batch_size,
            turn_logprobs=scored if replay.weighted else None,
            max_ratio=replay.max_ratio,
            read_episode=archive.load,
            privileged=_truth_of if options.privileged else None,
            encode=sources.encode,
            follow=replay.follow,
            learning_rate=options.learning_rate,
            seed=sources.seed,
        )

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
            raise CreditError(
                f"{folder} has no critic with a store of transitions, so the run cannot be resumed. Start it anew."
            )
        super().restore(folder)
        self.store.load(json.loads((folder / STORE_FILE).read_text(encoding="utf-8")), self._read_episode)

    def _weights(self, batch: Sequence[TurnTransition], ratios: dict[tuple[str, int], float]) -> np.ndarray:
        """Return [B] the weights of the value targets: 1, or the clipped ratio of each turn's probabilities."""
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
        slow = np.stack(self._copy.read(inputs))  # [B, 3, 4]: before the turn, after it, and before the next turn
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


def _truth_of(task: Task) -> str:
    """Return the task's truth as text, which only a privileged critic may read."""
    return f"{task.truth}\n"
