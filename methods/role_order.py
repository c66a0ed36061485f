"""Trains several roles: by updating one after the other, or by letting them exchange their adapters.

The training part `role_order` is from MARFT, `role_rotation` from CORY.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from transformers import TrainerCallback
from typing_extensions import override

from agentgym.options import Count
from agentgym.training import BatchPass, StepBatch, TrainingPart, TrainingPlan, TrainingRun

ROLE = "role_of_token"
MAX_WEIGHT = 2.0
"""Upper bound on an episode's weight; its inverse is the lower bound. Our choice."""


class RoleOrder(TrainingPart):
    """Updates the roles in order, each in a separate pass over the step's batch.

    The advantages of a role's tokens are multiplied by a weight: the probability of the tokens of the roles already
    updated, after their update, divided by that before it. So each role is updated for the team as it now is. Turns
    without a role belong to the first role of policy.lora.roles.

    Source: HAPPO, Kuba et al. 2022, arXiv:2109.11251, where the joint return never falls; for language models MARFT,
    Liao et al. 2025, arXiv:2504.16129. These papers use the ratio of one joint action; this part uses the clamped ratio
    of the whole episode.

    Args:
        roles: the roles in order, from policy.lora.roles. Turns in other roles are not trained on.
    """

    def __init__(self, *, roles: list[str]) -> None:
        self.roles, self._unnamed = tuple(roles), ""

    @property
    @override
    def passes(self) -> int:
        return max(len(self.roles), 1)

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        adapters = plan.policy.lora.roles if plan.policy.lora else []
        if unknown := [role for role in self.roles if role not in adapters]:
            yield (
                f"train.parts.role_order.roles names {unknown[0]!r}, which has no adapter: choose from "
                f"policy.lora.roles, which has {', '.join(adapters) or 'none'}."
            )

    @override
    def attach(self, trainer: Any) -> None:
        self._unnamed = trainer.role_adapters.roles[0] if trainer.role_adapters is not None else ""

    @override
    def columns(self, step: StepBatch) -> Mapping[str, torch.Tensor]:
        """Return (B, T) the index of each token's role in the order; -1 for tokens without such a role."""
        numbers = {role: number for number, role in enumerate(self.roles)}
        return {
            ROLE: step.by_turn(
                [
                    [numbers.get(turn.role or self._unnamed, -1) for turn in trajectory.turns]
                    for trajectory in step.own_trajectories
                ]
            )
        }

    @override
    def change_pass(self, update: BatchPass) -> BatchPass:
        """Leave only one role's tokens as own tokens, and weigh their advantages."""
        roles, own, advantages = update.inputs[ROLE], update.own, update.advantages
        number = update.number % self.passes
        if number:
            earlier = own * ((roles >= 0) & (roles < number))
            gained = ((update.logps(earlier) - update.behaviour_logps) * earlier).sum(1)
            weight = gained.exp().clamp(1 / MAX_WEIGHT, MAX_WEIGHT)
            advantages = advantages * weight[:, None].to(advantages)
        return update.changed(own=own * (roles == number), advantages=advantages)


class RoleRotation(TrainingPart):
    """Rotates the roles' adapters, with their optimiser state.

    Source: CORY, Ma et al. 2024, arXiv:2410.06101: two copies of a model exchange their roles.

    Args:
        every: after how many steps the roles exchange the adapters of policy.lora.roles.
    """

    def __init__(self, *, every: Count) -> None:
        self._rotation = _Rotation(every)

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        if not (plan.policy.lora and plan.policy.lora.roles):
            yield (
                f"{self.label} takes turns among the adapters of roles, and there are none: set policy.lora.roles, or "
                "leave it out."
            )

    @override
    def prepare(self, run: TrainingRun) -> None:
        self._rotation.passes = run.train.passes

    @override
    def callbacks(self) -> Sequence[Any]:
        return [self._rotation]

    @override
    def attach(self, trainer: Any) -> None:
        self._rotation.adapters = trainer.role_adapters


class _Rotation(TrainerCallback):
    """Rotates after every `every` steps of `passes` optimiser steps each."""

    def __init__(self, every: int) -> None:
        self._every, self.passes = every, 1
        self.adapters: Any = None

    def on_step_end(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any
    ) -> None:
        if state.global_step % (self._every * self.passes) == 0 and self.adapters is not None:
            self.adapters.rotate(model, optimizer.state)
