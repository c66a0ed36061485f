"""Metrics of each role of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.training.loss.grpo_batches import spread
from agentgym.trajectory.record import Trajectory

UNNAMED = "unnamed"
"""The role of turns without a role, in metric names."""


def role_metrics(trajectories: Sequence[Trajectory], batch: Mapping[str, Any]) -> dict[str, float]:
    """Return `roles/NAME/reward` and `roles/NAME/kl` of each role in a batch; nothing if no turn has a role.

    Returns: the mean return of the episodes with the role, and, if there is a reference model, the mean KL of the
        role's tokens to the reference, in nats. Turns without a role count as `unnamed`.
    """
    names = sorted({turn.role or UNNAMED for trajectory in trajectories for turn in trajectory.turns})
    if names in ([], [UNNAMED]):
        return {}
    metrics: dict[str, float] = {}
    numbers = [[names.index(turn.role or UNNAMED) for turn in trajectory.turns] for trajectory in trajectories]
    by_token = spread(numbers, batch["turn_of_token"])
    reference, sampled = batch.get("ref_per_token_logps"), batch.get("old_per_token_logps")
    for number, name in enumerate(names):
        plays = [t for t, of_turns in zip(trajectories, numbers, strict=True) if t.valid and number in of_turns]
        if plays:
            metrics[f"roles/{name}/reward"] = sum(t.return_from() for t in plays) / len(plays)
        own = by_token == number
        if reference is not None and sampled is not None and own.any():
            gap = (reference - sampled)[own]
            metrics[f"roles/{name}/kl"] = float((gap.exp() - gap - 1).mean())
    return metrics
