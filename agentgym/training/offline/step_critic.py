"""The probability of success before each turn, learnt separately from the policy and then frozen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agentgym.errors import CreditError
from agentgym.training.signals.turn_scorer import TokenPositions, TurnScorer
from agentgym.trajectory import Trajectory

Array = NDArray[np.float64]


class StepCritic:
    """Predict from the tokens before a turn the probability that the episode succeeds.

    Args:
        model: the model whose body is copied. `settings`: of TurnScorer.
    Source: Liu et al. 2024, arXiv:2412.18279 (a critic of steps, trained before and separately from the actor).
    """

    def __init__(self, model: Any, **settings: Any) -> None:
        self._scorer = TurnScorer(model, heads=1, **settings)

    def fit(self, trajectories: Sequence[Trajectory], labels: Sequence[Array]) -> float:
        """Minimise the binary cross-entropy. The optimum predicts the mean label of each prefix.

        Args:
            labels: one [T] array per trajectory: the eventual success, 0 to 1, as seen from before each turn.
        Returns: the mean loss of the first pass, in nats.
        """
        inputs = [_before_turns(trajectory) for trajectory in trajectories]
        turns = float(np.mean([len(label) for label in labels]))  # one divisor for all, to weight prefixes equally
        device = self._scorer.head.weight.device
        targets = [torch.tensor(label, dtype=torch.float32, device=device) for label in labels]

        def loss_of(row: int, numbers: torch.Tensor) -> torch.Tensor:
            entropy = torch.nn.functional.binary_cross_entropy_with_logits
            return entropy(numbers[:, 0], targets[row], reduction="sum") / turns

        return self._scorer.fit(inputs, loss_of)

    def advantages(self, trajectories: Sequence[Trajectory]) -> list[Array]:
        """Return [T] per trajectory: each turn's increase of the probability, which ends as the actual success."""
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
            f"The episode {trajectory.id!r} has the success {success}: a critic of steps learns from a `success` "
            "between 0 and 1. Give the reward an outcome component of that name."
        )
    return success


def success_labels(trajectories: Sequence[Trajectory]) -> list[Array]:
    """Return [T] per trajectory: its own success, for every turn. Raises: CreditError as `success_of`."""
    return [np.full(len(trajectory.turns), success_of(trajectory)) for trajectory in trajectories]


def _before_turns(trajectory: Trajectory) -> TokenPositions:
    trajectory.require_one_row("the critic of steps")
    ids, positions = list(trajectory.prompt_ids), []
    for turn in trajectory.turns:
        positions.append(len(ids) - 1)
        ids += [*turn.token_ids, *turn.observation_ids]
    return TokenPositions(ids, positions)
