"""The recipe's [warm_start]: imitation before the training."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from agentgym import registry
from agentgym.number_types import Positive
from agentgym.options import Count, Share
from agentgym.training.recipe.stage_section import MICROBATCH_TOKENS, ReadsEpisodes

ADAMW = "adamw"
"""The optimiser of an imitation that names none; it is torch's."""


class WarmStartSection(ReadsEpisodes):
    """Supervised imitation of oracle demonstrations; the loss is only on the agent's own tokens.

    With `episodes`, stored episodes are imitated instead of demonstrations.
    """

    demonstrations: Count = 1000
    """How many training tasks the scripted players demonstrate."""
    tags: tuple[str, ...] = ()
    """Demonstrate only tasks that carry one of these tags, so that nothing is learnt from other tasks before
    reinforcement. By default all tasks are demonstrated.
    """
    imperfect_oracle: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The share of demonstrations by the task set's imperfect oracle, which uses the tools well for the wrong goal."""
    steps: Annotated[int, Field(ge=0)] = 500
    """The maximum number of optimiser steps. 0 leaves the imitation out."""
    batch_size: Count = 32
    """How many demonstrations a step learns from."""
    learning_rate: Positive = 2e-3
    """The peak learning rate, which decays to a tenth. The default suits `policy.tiny`; use a tenth of it or less for a
    pretrained model.
    """
    optimizer: str = ADAMW
    """`adamw`, or a registered optimiser, see `agentgym list optimisers`: `muon` teaches a small model from scratch in
    less than half of the steps that `adamw` needs, at twice its rate."""
    microbatch_tokens: Count = MICROBATCH_TOKENS
    """A step is computed in parts of at most this many tokens, padding included. Fewer take less memory and change
    nothing else."""
    save_every: Count = 200
    """The number of steps between two checkpoints, from which an interrupted warm start continues."""
    until_success: Share | None = None
    """Stop the imitation as soon as success on validation tasks reaches this share, so that reinforcement has something
    left to learn."""
    validate_every: Count = 50
    """The number of steps between two validations."""
    validate_tasks: Count = 64
    """The number of tasks in a validation, sampled according to [evaluate]."""
    select: str | None = None
    """Which of the stored `episodes` are imitated: "success" (the default), "best_of(n=1)",
    "weighted(temperature=1.0)", "score(component='name', minimum=1.0)", or of their turns "improved(temperature=1.0)";
    see `agentgym list selections`."""

    @field_validator("optimizer")
    @classmethod
    def _registered_optimiser(cls, name: str) -> str:
        if name != ADAMW and name not in registry.names("optimisers"):
            known = ", ".join((ADAMW, *registry.names("optimisers")))
            raise ValueError(f"{name!r} is not an optimiser: choose one of {known}")
        return name

    @model_validator(mode="after")
    def _selects_among_episodes(self) -> WarmStartSection:
        if self.select is not None and not self.episodes:
            raise ValueError(
                f"select = {self.select!r} chooses among recorded episodes, and none are named: name some in `episodes`"
            )
        return self
