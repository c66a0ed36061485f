"""A turn-level critic: predict the return from each turn on, learning from the run's own returns."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentgym.task import Task
from agentgym.training.signals.provider import SignalRows
from agentgym.training.signals.turn_scorer import TokenPositions, TurnScorer, explained_variance, move_towards
from agentgym.training.stored_turns.transitions import ReturnSpec
from agentgym.trajectory import Trajectory

FILE = "critic.pt"


class Critic:
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

    provides: tuple[str, ...] = ("values", "action_values")

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
            raise ValueError("A privileged critic needs `encode`, from text to the model's token ids.")
        self.return_spec, self.follow, self.double = return_spec, follow, double
        self._privileged, self._encode = privileged, encode
        self.scorer = TurnScorer(model, heads=4 if double else 2, **settings)
        self._copy = copy.deepcopy(self.scorer) if double else None

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, SignalRows]:
        values: SignalRows = [[0.0] * (len(t.turns) + 1) for t in trajectories]
        actions: SignalRows = [[0.0] * len(t.turns) for t in trajectories]
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
        mean_turns = float(np.mean([len(t.turns) for t in valid]))  # one divisor for all, to weight turns equally
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
        """Return [2, T] targets for the value before each turn and for the turn's action value."""
        if slow_values is None:
            return np.stack([returns, returns])
        values, actions = slow_values
        rewards = self.return_spec.rewards(trajectory)
        return np.stack([actions, rewards + self.return_spec.gamma * values[1:]])
