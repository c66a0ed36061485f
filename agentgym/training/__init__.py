"""Training on TRL: agentgym's rollouts and credit, TRL's optimisation.

`Recipe` describes a whole run. `train` executes it in the stages of `agentgym.training.stages`. `TurnGRPOTrainer`
learns from reward, together with `TrainingPart`s such as gatherers and critics. `Rollouts` plays the episodes.
`demonstrations` plays the episodes that a warm start imitates.
The names below are loaded on first use: importing this package loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names

if TYPE_CHECKING:
    from agentgym.rollout.rollouts import Rollouts
    from agentgym.training.fit import Exclusion, TrainingPlan
    from agentgym.training.loss.frozen_model import FrozenModel
    from agentgym.training.loss.grpo_batches import OtherRows
    from agentgym.training.loss.step_batch import BatchPass, StepBatch
    from agentgym.training.parts import TrainingPart, TrainingRun
    from agentgym.training.recipe.recipe import Recipe
    from agentgym.training.run import train
    from agentgym.training.turn_grpo import TurnGRPOTrainer

_HOME = {
    "BatchPass": "loss.step_batch",
    "Exclusion": "fit",
    "FrozenModel": "loss.frozen_model",
    "OtherRows": "loss.grpo_batches",
    "Recipe": "recipe.recipe",
    "Rollouts": ".rollout.rollouts",
    "StepBatch": "loss.step_batch",
    "TrainingPart": "parts",
    "TrainingPlan": "fit",
    "TrainingRun": "parts",
    "TurnGRPOTrainer": "turn_grpo",
    "train": "run",
}

__all__ = [
    "BatchPass",
    "Exclusion",
    "FrozenModel",
    "OtherRows",
    "Recipe",
    "Rollouts",
    "StepBatch",
    "TrainingPart",
    "TrainingPlan",
    "TrainingRun",
    "TurnGRPOTrainer",
    "train",
]


__getattr__ = lazy_names(__name__, _HOME)
