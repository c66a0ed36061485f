"""The stages of a training run; `agentgym.training.run` puts them in order.

`define_stage` makes a stage, of the kind `stages`, from a function of a RunContext and a Learner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names

if TYPE_CHECKING:
    from agentgym.training.loss.scored_rows import ScoredRow
    from agentgym.training.recipe.stage_section import LearningSection, ReadsEpisodes
    from agentgym.training.stages.context import Learner, RunContext
    from agentgym.training.stages.contract import PlannedStage, define_stage
    from agentgym.training.stages.measure import measure_held_out
    from agentgym.training.stages.row_groups import RowGroup

_HOME = {
    "Learner": "context",
    "LearningSection": ".recipe.stage_section",
    "PlannedStage": "contract",
    "ReadsEpisodes": ".recipe.stage_section",
    "RowGroup": "row_groups",
    "RunContext": "context",
    "ScoredRow": "row_groups",
    "define_stage": "contract",
    "measure_held_out": "measure",
}

__all__ = [
    "Learner",
    "LearningSection",
    "PlannedStage",
    "ReadsEpisodes",
    "RowGroup",
    "RunContext",
    "ScoredRow",
    "define_stage",
    "measure_held_out",
]

__getattr__ = lazy_names(__name__, _HOME)
