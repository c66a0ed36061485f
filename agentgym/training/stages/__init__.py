"""The stages of a training run; `agentgym.training.run` puts them in order.

`define_stage` makes a stage of a function of a RunContext and a Learner, for the kind `stages`.

context.py      shared by all stages: the recipe, the run folder, the tasks, the rollouts, the progress bars
contract.py     the definitions of a stage
plan.py         the stages of a recipe, in order
starting_model.py  the model that training starts from
warm_start.py   supervised imitation of demonstrations or stored episodes
reinforce.py    reinforcement learning with turn-level credit
collect.py      plays training tasks; the ledger stores the episodes for later stages
row_groups.py   trains on groups of rows that are compared with each other
stored_episodes.py  the episodes that a stage learns from, and the record of its choice
selection.py    selects the stored episodes to imitate, and the successes of experts
update_parts.py the parts of the update: the reference, the learning rate, the order of roles
streaming.py    playing in the background
measure.py      validation while training, held-out evaluation before and after, the closing report
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
