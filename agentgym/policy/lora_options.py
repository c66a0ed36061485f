"""The shape of a LoRA adapter, in a recipe's [policy.lora]."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from agentgym.options import Count, Section

ALL_LINEAR = "all-linear"


class LoraOptions(Section):
    """Train a LoRA adapter: two thin matrices beside each of the model's chosen layers, whose own weights stay.

    `rank`: their inner width. `alpha`: their product is scaled by alpha / rank. `dropout`: of their input while
    imitating; reinforcement has none, because its episodes are sampled without. `targets`: names of the layers, or
    "all-linear" for all but the output layer. `roles`: each of these has an adapter of its own, of this rank; turns
    without a role are the first one's. By default there is one adapter for all.
    """

    rank: Count = 16
    alpha: Count = 32
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    targets: str | list[str] = ALL_LINEAR
    roles: list[str] = []

    @field_validator("roles")
    @classmethod
    def _several_names(cls, roles: list[str]) -> list[str]:
        if roles and (len(roles) < 2 or len({*roles, ""}) <= len(roles)):
            raise ValueError(f"roles = {roles}: name at least two roles, each once, or leave it out")
        return roles
