"""Whether a run can shard its weights over the processes, found out before anything is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from agentgym.errors import RecipeError
from agentgym.training.model.sharding import OPTIMISERS
from agentgym.training.processes import Processes
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.stages.plan import PlannedStage

_SHARDED_STAGES = ("imitate", "reinforce")
_OF_WHOLE_MODELS = (
    *("values", "action_values", "token_values", "contributions"),  # from a network that begins as a copy of the policy
    *("rank_deviations", "flow_deviations"),  # from hidden states
)
"""Signals that the first process computes by itself with a whole model."""


def check_sharding(recipe: Recipe, stages: Sequence[PlannedStage], processes: Processes) -> None:
    """Check what the launcher and `machine.sharding` ask for, also of a run that is resumed.

    Raises: RecipeError naming the reason and the remedy.
    """
    options = recipe.train.trl.keys() | {key for stage in stages for key in stage.recipe.train.trl}
    if _is_set("ACCELERATE_USE_DEEPSPEED") or "deepspeed" in options:
        raise RecipeError(
            "DeepSpeed: agentgym has not been run with ZeRO. To shard the weights over the processes, set "
            "machine.sharding = 'fsdp' and start with torchrun."
        )
    sharding = recipe.machine.sharding
    if given := sorted({"fsdp", "fsdp_config"} & options):
        raise RecipeError(f"[train.trl] {given[0]}: the weights are sharded by machine.sharding = 'fsdp'.")
    if sharding is None:
        if _is_set("ACCELERATE_USE_FSDP"):
            raise RecipeError(
                "accelerate was started with FSDP, and the recipe does not shard its weights. Set machine.sharding = "
                "'fsdp', or start the processes with torchrun."
            )
        return
    for reason in _reasons(recipe, processes):
        raise RecipeError(f"machine.sharding = {sharding!r} {reason}")
    for stage in stages:
        for reason in _reasons_of_stage(stage):
            raise RecipeError(f"machine.sharding = {sharding!r}: {reason}")


def _reasons(recipe: Recipe, processes: Processes) -> Iterator[str]:
    """Why a run cannot be sharded, one reason after the other."""
    if recipe.vllm is None:
        yield (
            "leaves no process with a whole model to sample from. Let a server sample: add a section [vllm]. Or leave "
            "it out: torchrun then trains a copy in each process (DDP)."
        )
    if processes.count == 1:
        yield (
            "shares the weights out among several processes, and this is one. Start them with `torchrun "
            "--nproc_per_node 2 -m agentgym train`, or leave it out."
        )
    if recipe.policy.quantization:
        yield f"has not been run with policy.quantization = {recipe.policy.quantization!r}. Leave one of them out."


def _reasons_of_stage(stage: PlannedStage) -> Iterator[str]:
    """Why a stage cannot train a model that lies in parts."""
    if stage.stage.checkpoint is not None and stage.kind not in _SHARDED_STAGES:
        yield (
            f"the stage {stage.name!r} trains a model that is whole, and only {' and '.join(_SHARDED_STAGES)} train "
            "one in parts. Run it by itself, without sharding."
        )
    warm_start, train = stage.recipe.warm_start, stage.recipe.train
    if stage.kind == "imitate" and warm_start is not None and warm_start.optimizer == "muon":
        yield "warm_start.optimizer = 'muon' needs whole matrices. Leave it out, for AdamW."
    if stage.kind != "reinforce":
        return
    estimator = train.make_estimator()
    if signals := [name for name in _OF_WHOLE_MODELS if name in estimator.requires]:
        yield (
            f"train.estimator = {train.estimator!r} requires {signals[0]}, which the first process computes by itself "
            "with a whole model. Choose an estimator or wrappers without it, such as return_to_go or grpo."
        )
    if "hindsight" in estimator.requires and train.signals.hindsight == "learnt":
        yield (
            f"train.estimator = {train.estimator!r} learns hindsight with a copy of the whole model in the first "
            "process. Set train.signals.hindsight = 'prompted'."
        )
    if (optimiser := train.trl.get("optim", OPTIMISERS[0])) not in OPTIMISERS:
        yield f"[train.trl] optim = {optimiser!r} has not been run with it. It is run with {', '.join(OPTIMISERS)}."
    if train.trl.get("fp16"):
        yield "[train.trl] fp16 has not been run with it. Use bf16."


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "false").lower() in ("1", "true")
