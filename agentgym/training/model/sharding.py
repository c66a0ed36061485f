"""FSDP: shard weights, gradients and optimiser state over the training processes.

Torch's `fully_shard` (FSDP2) gathers a layer to compute with it and frees it afterwards. No process can sample from
such a model, so the first process keeps a full copy in main memory, from which weights are published and saved.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin, convert_outputs_to_fp32
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor
from typing_extensions import override

from agentgym.policy.adapters import own_model
from agentgym.training.fit import PlannedPart, TrainingPlan


@contextmanager
def plain_forward(model: Any) -> Iterator[None]:
    """Give the model its class's forward pass inside the block, so that it can be copied.

    Do not compute with it there.
    """
    own = own_model(model)
    patched = vars(own).pop("forward", None)
    try:
        yield
    finally:
        if patched is not None:
            own.forward = patched


OPTIMISERS = ("adamw_torch", "adamw_torch_fused", "sgd")
"""Names of transformers' optimisers that were tested with sharded weights."""


class ShardedModel(PlannedPart):
    """A model with weights sharded according to `machine.sharding`."""

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        key = f"machine.sharding = {plan.hardware.sharding!r}"
        if plan.vllm is None:
            yield (
                f"{key} leaves no process with a whole model to sample from. Let a server sample: add a section "
                "[vllm]. Or leave it out: torchrun then trains a copy in each process (DDP)."
            )
        if plan.process_count == 1:
            yield (
                f"{key} shares the weights out among several processes, and this is one. Start them with `torchrun "
                "--nproc_per_node 2 -m agentgym train`, or leave it out."
            )

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        key, trl = f"machine.sharding = {plan.hardware.sharding!r}", plan.train.trl
        if plan.policy.quantization:
            yield (
                f"{key} has not been run with policy.quantization = {plan.policy.quantization!r}. Leave one of them "
                "out."
            )
        if plan.train.steps and (optimiser := trl.get("optim", OPTIMISERS[0])) not in OPTIMISERS:
            yield (
                f"{key}: [train.trl] optim = {optimiser!r} has not been run with it. It is run with "
                f"{', '.join(OPTIMISERS)}."
            )
        if plan.train.steps and plan.train.ends_with == "best":
            yield (
                f"{key}: train.ends_with = 'best' loads the weights of the best validation into a whole model. Leave "
                "it out, and use the checkpoint in checkpoints/best."
            )
        if plan.train.steps and trl.get("fp16"):
            yield f"{key}: [train.trl] fp16 has not been run with it. Use bf16."


def sharding_arguments(sharding: str | None) -> dict[str, Any]:
    """Return the TrainingArguments that make a trainer shard its model, according to `machine.sharding`."""
    return {"fsdp": True, "fsdp_config": {"version": 2}} if sharding else {}


class ShardingTrainer:
    """Mix-in for a transformers Trainer: with `sharding_arguments`, the model is sharded when training begins."""

    accelerator: Any
    args: Any
    model: Any
    is_fsdp_enabled: bool

    def create_accelerator_and_postprocess(self) -> None:
        if not self.args.fsdp:
            super().create_accelerator_and_postprocess()  # type: ignore[misc]
            return
        # Weights keep their dtype and autocast chooses the compute dtype, as without sharding.
        self.args.fsdp_plugin_args["mixed_precision_policy"] = MixedPrecisionPolicy()
        super().create_accelerator_and_postprocess()  # type: ignore[misc]
        state = self.accelerator.state
        if state.distributed_type != DistributedType.FSDP:  # accelerate itself shards only on accelerators
            state.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP
            state.fsdp_plugin = FullyShardedDataParallelPlugin(**self.args.fsdp_plugin_args)
        self.accelerator.native_amp = self.accelerator.mixed_precision != "no"
        self.is_fsdp_enabled = True

    def _prepare_for_training(self, *arguments: Any, **options: Any) -> Any:
        """Call Trainer's method, which shards the model, and add the autocast that accelerate adds to full models."""
        prepared = super()._prepare_for_training(*arguments, **options)  # type: ignore[misc]
        if self.args.fsdp and self.accelerator.native_amp:
            for model in (self.model, getattr(self, "ref_model", None)):
                if model is not None:
                    model.forward = convert_outputs_to_fp32(_autocast(self.accelerator, model.forward))
        return prepared


def is_sharded(model: Any) -> bool:
    """Return whether a model's weights are sharded over processes."""
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())


def sharing_copy(model: Any) -> Any:
    """Return a copy that shares the model's tensors and keeps them in full after the model is sharded."""
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    with plain_forward(model):
        return copy.deepcopy(model, shared).eval()


def gather_into(model: Any, full_copy: Any | None) -> None:
    """Copy a sharded model's trained weights into its full copy. All processes must call this together.

    Args:
        full_copy: the full copy in the first process; None in the others.
    """
    targets = {} if full_copy is None else dict(full_copy.named_parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                value = _full(parameter)
                if name in targets:
                    targets[name].copy_(value)


def full_state(model: Any) -> Mapping[str, torch.Tensor]:
    """Return a model's full weights by name, on the CPU. If it is sharded, all processes must call this together."""
    return {name: _full(tensor.detach()).cpu() for name, tensor in model.state_dict().items()}


def _full(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _autocast(accelerator: Any, forward: Any) -> Any:
    def computed(*arguments: Any, **options: Any) -> Any:
        with accelerator.autocast():
            return forward(*arguments, **options)

    return computed
