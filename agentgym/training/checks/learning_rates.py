"""Finds learning rates, before a run starts, that suit a small model from scratch but destroy a pretrained one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from agentgym.storage.run_folder import checkpoint_in
from agentgym.training.checks.memory_plan import count_parameters
from agentgym.training.recipe.stage_section import LearningSection
from agentgym.training.stages.contract import PlannedStage

PRETRAINED = 50_000_000
"""A model folder with at least this number of parameters counts as pretrained."""


class Rates(NamedTuple):
    """The range of learning rates in published runs, and the limit above which a warning is given."""

    low: float
    high: float
    limit: float


# Full weights: GRPOConfig of TRL, verl and DAPO have 1e-6, SFTConfig 2e-5; recipes/smollm2.toml learns at 2e-5 after
# 3e-4. Adapters take about ten times as much (Schulman et al. 2025, "LoRA without regret").
_IMITATION, _IMITATION_OF_ADAPTER = Rates(1e-5, 3e-4, 5e-4), Rates(1e-4, 5e-4, 1e-3)
_REINFORCEMENT, _REINFORCEMENT_OF_ADAPTER = Rates(1e-6, 2e-5, 5e-5), Rates(1e-5, 2e-4, 5e-4)


def learning_rate_notes(stages: Sequence[PlannedStage]) -> list[str]:
    """Return a warning for each stage of a run whose learning rate is too high for a pretrained model.

    A hub model counts as pretrained; a folder if its model has 50 M parameters or more.
    """
    high = [(key, rate, rates) for key, rate, rates in _learning_rates(stages) if rate > rates.limit]
    policy = stages[0].recipe.policy
    if not high or policy.path is None:
        return []
    model = "a pretrained model"
    if checkpoint_in(Path(policy.path)) is not None:
        parameters = count_parameters(policy)
        if parameters < PRETRAINED:
            return []
        model += f" of {parameters / 1e6:.0f} M parameters"
    trained = f"an adapter of {model}" if policy.lora else model
    return [
        f"{key} = {rate:g} is a learning rate for models from scratch: {trained} forgets what it knows at it, and no "
        f"error says so. Set {rates.low:g} to {rates.high:g}."
        for key, rate, rates in dict.fromkeys(high)
    ]


def _learning_rates(stages: Sequence[PlannedStage]) -> Iterator[tuple[str, float, Rates]]:
    """Yield the key, the learning rate and the usual rates of each stage that trains the model."""
    for stage in stages:
        adapter = stage.recipe.policy.lora is not None
        imitation = _IMITATION_OF_ADAPTER if adapter else _IMITATION
        reinforcement = _REINFORCEMENT_OF_ADAPTER if adapter else _REINFORCEMENT
        is_listed = stage.has_folder or isinstance(stage.options, LearningSection)
        where = f" of the stage {stage.name!r}" if is_listed else ""
        warm_start, train = stage.recipe.warm_start, stage.recipe.train
        if stage.stage.section == "train" and train.steps:
            yield f"train.optimiser.learning_rate{where}", train.optimiser.learning_rate, reinforcement
        elif stage.stage.section == "warm_start" and warm_start is not None and warm_start.steps:
            yield f"warm_start.learning_rate{where}", warm_start.learning_rate, imitation
        elif isinstance(stage.options, LearningSection):
            yield f"learning_rate{where}", stage.options.learning_rate, reinforcement
