"""Roles that are updated one after the other, each for what the roles before it have become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from transformers import TrainerCallback

from agentgym.policy.role_adapters import role_adapters_of
from agentgym.training.loss.grpo_batches import own_tokens
from agentgym.trajectory import Trajectory

UNNAMED = "unnamed"
"""In the names of metrics, the role of turns that have none."""
MAX_WEIGHT = 2.0
"""The weight of an episode is at most this, and at least its inverse; our choice."""


class RoleOrder:
    """The order in which the roles are updated, each in a pass of its own over the batch of a step.

    The advantages of a role's tokens are multiplied by how much more likely the roles that were updated before it now
    are to write what they wrote in the episode, so that it is updated for the team as it is by then. Source: HAPPO,
    Kuba et al. 2022, arXiv:2109.11251, whose joint return does not fall; for language models MARFT, Liao et al. 2025,
    arXiv:2504.16129. Theirs is the ratio of one joint action; here it is that of the whole episode, within bounds.

    Args:
        roles: in their order. Turns in others are not trained on.
        unnamed: whose the turns without a role are.
    """

    def __init__(self, roles: Sequence[str], unnamed: str = "") -> None:
        self.roles, self._unnamed = tuple(roles), unnamed

    def by_token(self, trajectories: Sequence[Trajectory], turn_of_token: torch.Tensor) -> torch.Tensor:
        """(B, T) the number of each token's role in the order; -1 where it has none.

        Args:
            turn_of_token: (B, T), -1 where a token is not the agent's.
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
        """Return the batch with the tokens of one role alone.

        Args:
            batch: a batch of TRL's form, with `role_of_token`.
            number: the number of the pass over it, from 0.
            score: gives (B, T) the present log-probabilities of a batch's own tokens.
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
    """Of each role in a batch, `roles/NAME/reward` and `roles/NAME/kl`; nothing where episodes have one role.

    Returns: the mean return of the episodes that the role plays in, and the mean distance of its tokens from the
        reference model, in nats, where there is one. Turns without a role are those of `unnamed`.
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
    """Lets the adapters of the roles change hands after so many optimiser steps, with what the optimiser knows of them.

    Source: CORY, Ma et al. 2024, arXiv:2410.06101: two copies of a model exchange their roles.
    """

    def __init__(self, every: int) -> None:
        self._every = every

    def on_step_end(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any
    ) -> None:
        if state.global_step % self._every == 0 and (adapters := role_adapters_of(model)) is not None:
            adapters.rotate(model, optimizer.state)
