"""A turn-level critic: what is still to come before each turn, learnt from the returns of the run itself."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from agentgym.task import Task
from agentgym.training.signals.provider import Rows
from agentgym.training.signals.return_spec import ReturnSpec
from agentgym.training.signals.turn_scorer import TokenPositions, TurnScorer, explained
from agentgym.trajectory import Trajectory


class Critic:
    """`values` before each turn (0 after a last turn that ended the task) and `action_values` after it was said.

    Args:
        model: its body is copied. `worth`: the return that is learnt, that of the estimator it serves.
        double: two heads for each number, of which the lower counts, and temporal-difference targets from a slowly
            following copy, as in ArCHer. Otherwise one head, and the returns themselves as targets.
        privileged: what the critic may read of a task and the policy may not, as text; None for nothing.
        encode: from text to token ids, for `privileged`.
        follow: how far the copy goes towards the network after each batch.
        settings: of TurnScorer.
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

    def signals(self, played: Sequence[Trajectory], step: int) -> Mapping[str, Rows]:
        values: Rows = [[0.0] * (len(t.turns) + 1) for t in played]
        actions: Rows = [[0.0] * len(t.turns) for t in played]
        rows = [row for row, t in enumerate(played) if t.valid]
        for row, found in zip(rows, self._numbers(self.scorer, [played[row] for row in rows]), strict=True):
            values[row], actions[row] = found[0].tolist(), found[1].tolist()
        return {"values": values, "action_values": actions}

    def update(self, played: Sequence[Trajectory]) -> Mapping[str, float]:
        """Fit to the batch. Returns: loss, and the share of the returns' variance that was explained before it."""
        valid = [t for t in played if t.valid]
        if not valid:
            return {}
        readings = [self._token_positions(t) for t in valid]
        before = self._numbers(self.scorer, valid)
        returns = [self.return_spec.to_go(t) for t in valid]
        said = np.concatenate([value[:-1] for value, _ in before])
        figures = {"critic/explained_variance": explained(said, np.concatenate(returns))}
        ahead = self._numbers(self._copy, valid) if self._copy is not None else None
        targets = [
            self._targets(t, got, None if ahead is None else ahead[row])
            for row, (t, got) in enumerate(zip(valid, returns, strict=True))
        ]
        device = self.scorer.head.weight.device
        wanted = [torch.tensor(target, dtype=torch.float32, device=device) for target in targets]

        def loss_of(row: int, numbers: torch.Tensor) -> torch.Tensor:
            count = len(valid[row].turns)
            half = numbers.shape[1] // 2
            state, action = numbers[:count, :half], numbers[count + 1 :, half:]
            target = wanted[row]
            return ((state - target[0][:, None]) ** 2).mean() + ((action - target[1][:, None]) ** 2).mean()

        figures["critic/loss"] = self.scorer.fit(readings, loss_of)
        if self._copy is not None:
            with torch.no_grad():
                for slow, fast in zip(self._copy.parameters(), self.scorer.parameters(), strict=True):
                    slow.lerp_(fast, self.follow)
        return {name: value for name, value in figures.items() if np.isfinite(value)}

    def _token_positions(self, trajectory: Trajectory) -> TokenPositions:
        """Positions: the last token before each turn, the very last, then the last token of each turn."""
        ahead: list[int] = []
        if self._privileged is not None and self._encode is not None:
            ahead = self._encode(self._privileged(trajectory.task))
        ids, states, actions = [*ahead, *trajectory.prompt_ids], [], []
        for turn in trajectory.turns:
            states.append(len(ids) - 1)
            ids += turn.token_ids
            actions.append(len(ids) - 1)
            ids += turn.observation_ids
        return TokenPositions(ids, [*states, len(ids) - 1, *actions])

    def _numbers(self, scorer: TurnScorer, valid: Sequence[Trajectory]) -> list[tuple[np.ndarray, np.ndarray]]:
        """[K+1] values and [K] action values of each trajectory."""
        found = []
        for trajectory, numbers in zip(valid, scorer.read([self._token_positions(t) for t in valid]), strict=True):
            count, half = len(trajectory.turns), numbers.shape[1] // 2
            values = numbers[: count + 1, :half].min(axis=1)
            if trajectory.stop_reason is None or not trajectory.stop_reason.truncated:
                values[-1] = 0.0  # the task is over: nothing is to come
            found.append((values, numbers[count + 1 :, half:].min(axis=1)))
        return found

    def _targets(
        self, trajectory: Trajectory, returns: np.ndarray, ahead: tuple[np.ndarray, np.ndarray] | None
    ) -> np.ndarray:
        """[2, K] what the value before, and the action value of, each turn should have been."""
        if ahead is None:
            return np.stack([returns, returns])
        values, actions = ahead
        rewards = self.return_spec.rewards(trajectory)
        return np.stack([actions, rewards + self.return_spec.gamma * values[1:]])
