"""A block of stages that is run several times; `agentgym.training.stages.plan` lists its stages one by one."""

from __future__ import annotations

from agentgym.training.recipe.stage_section import RepeatSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import define_stage


@define_stage(options=RepeatSection)
def repeat_stage(context: RunContext, learner: Learner, options: RepeatSection) -> Learner:
    """Runs a block of stages several times, for example `collect` and `imitate`."""
    return learner  # the plan has put the stages of the block in its place
