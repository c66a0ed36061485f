"""From turns to tokens: one number per turn becomes one number per token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import ShapeError
from agentgym.trajectory import Trajectory


def spread_over_tokens(trajectory: Trajectory, per_turn: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Give each of the agent's own tokens the number of its turn.

    Args:
        trajectory: of T turns with token ids.
        per_turn: [T] float, for example the advantage of each turn.
    Returns: [L_completion] float64, one entry per token after the prompt; exactly 0 on observations.
    Raises: ShapeError if `per_turn` does not have T entries.
    """
    values = np.asarray(per_turn, np.float64)
    if values.shape != (len(trajectory.turns),):
        raise ShapeError(
            f"{trajectory.id!r} has {len(trajectory.turns)} turns, but per_turn has the shape {values.shape}: "
            "give one number for each turn."
        )
    length = sum(len(turn.token_ids) + len(turn.observation_ids) for turn in trajectory.turns)
    tokens = np.zeros(length, np.float64)
    for value, (start, end) in zip(values, trajectory.turn_spans(), strict=True):
        tokens[start:end] = value
    return tokens
