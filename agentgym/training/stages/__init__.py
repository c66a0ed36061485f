"""The stages of a training run; `agentgym.training.run` puts them in order.

`define_stage` makes a stage of a function of a RunContext and a Learner, for the kind `stages`.

context.py      shared by all stages: the recipe, the run folder, the tasks, the rollouts, the progress bars
contract.py     the definitions of a stage
plan.py         the stages of a recipe, in order
warm_start.py   the model that training starts from, and supervised imitation of the demonstrations
reinforce.py    reinforcement learning with turn-level credit
collect.py      plays training tasks; the ledger stores the episodes for later stages
prefer.py, rank.py  learn from comparisons of episodes; compare.py holds their common code
step_tasks.py   turns each turn of an expert's episode into a task
generate.py     generates training tasks similar to those that the policy fails at
episode_sources.py, episode_manifest.py  the episodes that a stage learns from, and the record of its choice
stored_episodes.py  stored episodes of experts
measure.py      validation while training, held-out evaluation before and after, the closing report
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym._imports import lazy_names

if TYPE_CHECKING:
    from agentgym.training.recipe.stage_section import ReadsEpisodes
    from agentgym.training.stages.context import Learner, RunContext
    from agentgym.training.stages.contract import PlannedStage, define_stage
    from agentgym.training.stages.measure import measure_held_out

_HOME = {
    "Learner": "context",
    "PlannedStage": "contract",
    "ReadsEpisodes": "episode_sources",
    "RunContext": "context",
    "define_stage": "contract",
    "measure_held_out": "measure",
}

__all__ = ["Learner", "PlannedStage", "ReadsEpisodes", "RunContext", "define_stage", "measure_held_out"]

__getattr__ = lazy_names(__name__, _HOME)
