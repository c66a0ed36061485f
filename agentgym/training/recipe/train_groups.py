"""Keys of the recipe's [train] that belong to one subject: the optimiser, and roles."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentgym.number_types import Positive
from agentgym.options import Section

Every = Annotated[int, Field(ge=0)]


class KeyGroup(Section):
    """Keys of one subject in a section. A stage's options replace single keys, not the whole group."""


class OptimiserSection(KeyGroup):
    """The optimiser's settings."""

    learning_rate: Positive = 3e-4
    """The peak learning rate. It stays constant unless `trl.lr_scheduler_type` names a schedule. The default suits
    `policy.tiny`; use 1e-6 to 2e-5 for a pretrained model, and ten times as much for an adapter."""
    warmup_steps: Every = 0
    """The number of optimiser steps over which the learning rate rises from 0."""
    max_grad_norm: Positive = 1.0
    """A longer gradient is scaled down to this norm."""


class RolesSection(KeyGroup):
    """Which of the agent's roles are trained."""

    trainable: list[str] = []
    """Train only on turns in these roles, for example ["planner"]. Other turns are read, and count in the episode's
    credit. By default all turns are trained on.
    """
