"""The shape of a LoRA adapter, in a recipe's [policy.lora]."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from agentgym.options import Count, Section

ALL_LINEAR = "all-linear"


class LoraOptions(Section):
    """Train a LoRA adapter: two thin matrices beside each of the model's chosen layers, whose own weights stay."""

    rank: Count = 16
    """The inner width of the two matrices."""
    alpha: Count = 32
    """The product of the two matrices is scaled by `alpha` / `rank`."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The dropout on the matrices' input while imitating. Reinforcement uses no dropout, because its episodes are
    sampled without dropout."""
    targets: str | list[str] = ALL_LINEAR
    """The names of the layers, or "all-linear" for all linear layers but the output layer."""
    roles: list[str] = []
    """Give each of these roles its own adapter of this rank. Turns without a role belong to the first role. By
    default all roles share one adapter."""

    @field_validator("roles")
    @classmethod
    def _several_names(cls, roles: list[str]) -> list[str]:
        if roles and (len(roles) < 2 or len({*roles, ""}) <= len(roles)):
            raise ValueError(f"roles = {roles} is not valid: name at least two different roles, or leave it out")
        return roles
