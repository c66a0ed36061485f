"""The policy that samples from the model in training: in this process, or on vLLM servers."""

from __future__ import annotations

from typing import Any

import torch

from agentgym.policy.adapters import own_model
from agentgym.policy.local import policy_of, renderer_of
from agentgym.policy.transformers import TransformersPolicy
from agentgym.training.model.sharding import sharing_copy
from agentgym.training.recipe.hardware_section import HardwareSection
from agentgym.training.recipe.policy_section import PolicySection
from agentgym.training.vllm.engine import TrainedVllmPolicy, TrainedVllmPool, VllmEngine

TrainedPolicy = TransformersPolicy | TrainedVllmPolicy | TrainedVllmPool


def trained_policy(
    model: Any,
    processing_class: Any,
    section: PolicySection,
    hardware: HardwareSection,
    *,
    precision: str | None,
    engine: VllmEngine | None,
    is_first: bool,
) -> TrainedPolicy:
    """Make the policy that samples from a model, with the options of [policy] and [machine].

    Args:
        processing_class: the model's tokenizer, or its processor if it reads images.
        precision: torch's name of the dtype that training computes in; None for that of the weights.
        engine: the vLLM servers; None to sample in this process.
        is_first: whether this is the first of the processes that train together.
    """
    named = own_model(model)
    size = f"in {section.quantization}"  # packed 4-bit weights give another parameter count after a resume
    if not section.quantization:
        size = f"of {named.num_parameters() / 1e6:.1f} M parameters"
    name = f"{type(named).__name__} {size}"
    as_called = processing_class, section.call_format, section.template_options
    if engine is not None:
        published = sharing_copy(model) if hardware.sharding and is_first else model
        served = engine.policy(published, processing_class, renderer_of(*as_called))
        served.name = f"{name} on vLLM"
        return served
    policy = policy_of(
        model,
        *as_called,
        logit_hook=section.logit_hook,
        logit_hook_options=section.logit_hook_options,
        max_batch=hardware.max_batch,
        max_batch_tokens=hardware.max_batch_tokens,
        lockstep=hardware.lockstep,
        autocast=getattr(torch, precision) if precision else None,
    )
    policy.name = name
    return policy


def hooked_policy(
    model: Any, processing_class: Any, section: PolicySection, *, lockstep: bool, name: str
) -> TransformersPolicy:
    """Make a policy that samples in this process under the logit hook of a section."""
    policy = policy_of(
        model,
        processing_class,
        section.call_format,
        section.template_options,
        logit_hook=section.logit_hook,
        logit_hook_options=section.logit_hook_options,
        lockstep=lockstep,
    )
    policy.name = name
    return policy
