"""Keys of the recipe's [train] that belong to one subject: how the weights move, audits of credit, and roles."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentgym.number_types import Positive
from agentgym.options import Section

Every = Annotated[int, Field(ge=0)]


class KeyGroup(Section):
    """Keys of one subject in a section. The options of a stage replace them one by one, not the group as a whole."""


class OptimiserSection(KeyGroup):
    """How the weights move."""

    learning_rate: Positive = 3e-4
    """The peak learning rate. It stays constant unless `trl.lr_scheduler_type` names a schedule. The default suits
    `policy.tiny`; a pretrained model wants 1e-6 to 2e-5, an adapter ten times as much."""
    warmup_steps: Every = 0
    """Over how many optimiser steps the learning rate rises from 0, if its schedule warms up."""
    max_grad_norm: Positive = 1.0
    """A longer gradient is scaled down to this norm."""


class AuditSection(KeyGroup):
    """How often the credit is compared with counterfactual credit, and on how many episodes."""

    every: Every = 0
    """After how many steps the credit is compared. 0 never compares."""
    sample: Annotated[int, Field(ge=2)] = 8
    """How many trajectories an audit looks at."""
    continuations: Annotated[int, Field(ge=2)] = 4
    """How many episodes are continued from each turn of an audited trajectory."""


class RolesSection(KeyGroup):
    """Which of the agent's roles are trained."""

    trainable: list[str] = []
    """Train only on turns in these roles, for example ["planner"]. The others are read, and count in the credit of the
    episode. By default all turns are trained on."""
