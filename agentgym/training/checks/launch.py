"""How the processes of a run were launched, checked also where a run is resumed."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agentgym.errors import RecipeError
from agentgym.task import TaskSet
from agentgym.training.checks.parts import plan_of
from agentgym.training.fit import check_parts
from agentgym.training.model.sharding import ShardedModel
from agentgym.training.processes import Processes
from agentgym.training.stages.contract import PlannedStage


def check_launch(stages: Sequence[PlannedStage], task_set: TaskSet, processes: Processes) -> None:
    """Check that nothing but `machine.sharding` shards weights over the processes, and that there are several then.

    Raises: RecipeError with the reason and the remedy.
    """
    options = {key for stage in stages for key in stage.recipe.train.trl}
    is_sharded = any(stage.recipe.machine.sharding is not None for stage in stages)
    if _is_set("ACCELERATE_USE_DEEPSPEED") or "deepspeed" in options:
        raise RecipeError(
            "DeepSpeed: agentgym has not been run with ZeRO. To shard the weights over the processes, set "
            "machine.sharding = 'fsdp' and start with torchrun."
        )
    if given := sorted({"fsdp", "fsdp_config"} & options):
        raise RecipeError(f"[train.trl] {given[0]}: the weights are sharded by machine.sharding = 'fsdp'.")
    if not is_sharded and _is_set("ACCELERATE_USE_FSDP"):
        raise RecipeError(
            "accelerate was started with FSDP, and the recipe does not shard its weights. Set machine.sharding = "
            "'fsdp', or start the processes with torchrun."
        )
    for stage in stages if is_sharded else ():
        check_parts([ShardedModel()], plan_of(stage, task_set, processes))


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "false").lower() in ("1", "true")
