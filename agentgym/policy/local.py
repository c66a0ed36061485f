"""A policy from a checkpoint on this machine, of a model that reads text or of one that also reads images."""

from __future__ import annotations

from functools import wraps
from typing import Any

from agentgym.policy.checkpoint import describe_weights, load_checkpoint, tokenizer_of
from agentgym.policy.device import device_of
from agentgym.policy.formats.choice import AUTO, call_format_for, warn_of_another_format
from agentgym.policy.image_tokens import ImageTokens
from agentgym.policy.load_options import LoadOptions
from agentgym.policy.rendering import TemplateRenderer
from agentgym.policy.transformers import TransformersPolicy
from agentgym.policy.vision import VisionPolicy


def load(
    path: str,
    *,
    call_format: str = AUTO,
    device: str = "auto",
    dtype: str = "auto",
    attention: str | None = None,
    revision: str | None = None,
    base: str | None = None,
    tokenizer: str | None = None,
    chat_template: str | None = None,
    template_options: dict[str, Any] | None = None,
    quantization: str | None = None,
    sees: bool | None = False,
    **options: Any,
) -> TransformersPolicy:
    """Load a policy from a checkpoint: a folder, or the name of a hub model that is cached or may be downloaded.

    Args:
        path: the model, with its tokenizer or processor and chat template; or a LoRA adapter.
        call_format: registered name of its call format; "auto" is the format of its chat template.
        device: as torch names it; `auto` as in `device_of`.
        dtype, attention, revision, base, tokenizer, chat_template, template_options, quantization: see LoadOptions.
        sees: whether it reads images; None to follow its configuration.
        options: see TransformersPolicy and VisionPolicy.
    Raises: PolicyError if it cannot be loaded.
    """
    loading = LoadOptions.checked(
        dtype=dtype,
        attention=attention,
        revision=revision,
        base=base,
        tokenizer=tokenizer,
        chat_template=chat_template,
        template_options=template_options or {},
        quantization=quantization,
    )
    model, reader = load_checkpoint(path, device=device_of(device), options=loading, sees=sees)
    policy = policy_of(model.eval(), reader, call_format, loading.template_options, **options)
    policy.checkpoint = describe_weights(path, model) | loading.model_dump(exclude={"revision"}, exclude_defaults=True)
    return policy


@wraps(load, assigned=())  # gives it the options of `load`
def load_vision(path: str, **options: Any) -> TransformersPolicy:
    """Load a policy from a checkpoint of a vision model: a folder, or the name of a hub model that is cached here."""
    return load(path, sees=True, **options)


def policy_of(
    model: Any, reader: Any, call_format: str, template_options: dict[str, Any], **options: Any
) -> TransformersPolicy:
    """Return a policy that samples from the model.

    Args:
        reader: the model's tokenizer, or its processor if it reads images.
    """
    renderer = renderer_of(reader, call_format, template_options)
    return (TransformersPolicy if renderer.images is None else VisionPolicy)(model, renderer, **options)


def renderer_of(reader: Any, call_format: str, template_options: dict[str, Any]) -> TemplateRenderer:
    """Return the renderer of a model by its tokenizer, or by its processor if it reads images."""
    tokenizer = tokenizer_of(reader)
    chosen_format = call_format_for(tokenizer, call_format, template_options)
    if call_format != AUTO:
        warn_of_another_format(chosen_format, tokenizer, template_options)
    images = None if tokenizer is reader else ImageTokens(reader)
    return TemplateRenderer(tokenizer, chosen_format, template_options=template_options, images=images)
