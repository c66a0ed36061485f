"""Update roles one after the other, each given the updates of the roles before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from transformers import TrainerCallback

from agentgym.policy.role_adapters import role_adapters_of
from agentgym.training.loss.grpo_batches import own_tokens
from agentgym.trajectory.record import Trajectory

UNNAMED = "unnamed"
"""The role of turns without a role, in metric names."""
MAX_WEIGHT = 2.0
"""Upper bound on an episode's weight; its inverse is the lower bound. Our choice."""


class RoleOrder:
    """The order in which the roles are updated, each in a separate pass over the step's batch.

    The advantages of a role's tokens are multiplied by the probability ratio, after to before their update, of the
    tokens of the roles already updated. So each role is updated for the current team. Source: HAPPO, Kuba et al. 2022,
    arXiv:2109.11251, whose joint return does not fall; for language models MARFT, Liao et al. 2025, arXiv:2504.16129.
    These papers use the ratio of one joint action; this class uses the clamped ratio of the whole episode.

    Args:
        roles: the roles in order. Turns in other roles are not trained on.
        unnamed: the role of turns without a role.
    """

    def __init__(self, roles: Sequence[str], unnamed: str = "") -> None:
        self.roles, self._unnamed = tuple(roles), unnamed

    def by_token(self, trajectories: Sequence[Trajectory], turn_of_token: torch.Tensor) -> torch.Tensor:
        """Return (B, T) the index of each token's role in the order; -1 for tokens without such a role.

        Args:
            turn_of_token: (B, T), -1 for tokens that are not the agent's.
        """
        numbers = {role: number for number, role in enumerate(self.roles)}
        roles = torch.full_like(turn_of_token, -1)
        for row, trajectory in enumerate(trajectories):
            of_turn = torch.tensor([*(numbers.get(turn.role or self._unnamed, -1) for turn in trajectory.turns), -1])
            roles[row] = of_turn.to(roles.device)[turn_of_token[row]]
        return roles

    def of_pass(
        self, batch: Mapping[str, Any], number: int, score: Callable[[dict[str, Any]], torch.Tensor]
    ) -> dict[str, Any]:
        """Return the batch with only one role's tokens as own tokens.

        Args:
            batch: a batch in TRL's format, with `role_of_token`.
            number: the number of the pass over the batch, from 0.
            score: returns (B, T) the current log-probabilities of a batch's own tokens.
        """
        roles, own = batch["role_of_token"], own_tokens(batch)
        turn = number % len(self.roles)
        advantages = batch["advantages"]
        if turn:
            earlier = own * ((roles >= 0) & (roles < turn))
            now = score({**batch, "tool_mask": earlier})
            gained = ((now - batch["old_per_token_logps"]) * earlier).sum(1)
            weight = gained.exp().clamp(1 / MAX_WEIGHT, MAX_WEIGHT)
            advantages = advantages * weight[:, None].to(advantages)
        return {**batch, "tool_mask": own * (roles == turn), "advantages": advantages}


def role_metrics(trajectories: Sequence[Trajectory], batch: Mapping[str, Any]) -> dict[str, float]:
    """Return `roles/NAME/reward` and `roles/NAME/kl` of each role in a batch; nothing if no turn has a role.

    Returns: the mean return of the episodes with the role, and, if there is a reference model, the mean KL of the
        role's tokens to the reference, in nats. Turns without a role count as `unnamed`.
    """
    names = sorted({turn.role or UNNAMED for trajectory in trajectories for turn in trajectory.turns})
    if names in ([], [UNNAMED]):
        return {}
    metrics: dict[str, float] = {}
    by_token = RoleOrder(names, UNNAMED).by_token(trajectories, batch["turn_of_token"])
    reference, sampled = batch.get("ref_per_token_logps"), batch.get("old_per_token_logps")
    for number, name in enumerate(names):
        plays = [t for t in trajectories if t.valid and any((turn.role or UNNAMED) == name for turn in t.turns)]
        if plays:
            metrics[f"roles/{name}/reward"] = sum(t.return_from() for t in plays) / len(plays)
        own = by_token == number
        if reference is not None and sampled is not None and own.any():
            gap = (reference - sampled)[own]
            metrics[f"roles/{name}/kl"] = float((gap.exp() - gap - 1).mean())
    return metrics


class RoleRotation(TrainerCallback):
    """Rotate the roles' adapters, with their optimiser state, every `every` optimiser steps.

    Source: CORY, Ma et al. 2024, arXiv:2410.06101: two copies of a model exchange their roles.
    """

    def __init__(self, every: int) -> None:
        self._every = every

    def on_step_end(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any
    ) -> None:
        if state.global_step % self._every == 0 and (adapters := role_adapters_of(model)) is not None:
            adapters.rotate(model, optimizer.state)
