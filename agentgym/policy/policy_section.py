"""The recipe's [policy]: the model to train, its loading options, and an optional LoRA adapter."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from agentgym.options import Count, Registered, Section
from agentgym.policy.formats.choice import AUTO, FALLBACK
from agentgym.policy.load_options import LoadOptions, LoraOptions


class TinySection(Section):
    """A small Qwen3 model, and a byte-level BPE tokenizer trained on the text of the demonstrations."""

    vocabulary: Annotated[int, Field(ge=300)] = 1024
    """How many tokens the tokenizer has."""
    hidden: Count = 128
    """The width of the hidden states."""
    layers: Count = 4
    """How many layers the model has."""
    heads: Count = 4
    """How many attention heads a layer has, a multiple of `kv_heads`."""
    kv_heads: Count = 2
    """How many heads a layer has for keys and values."""
    head_dim: Annotated[int, Field(gt=0, multiple_of=2)] = 32
    """The width of a head, an even number."""

    @model_validator(mode="after")
    def _shared_heads(self) -> TinySection:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads = {self.heads} must be a multiple of kv_heads = {self.kv_heads}")
        return self


class PolicySection(LoadOptions):
    """The model to train."""

    path: str | None = None
    """A local checkpoint, a run folder or a hub model. A LoRA adapter is merged into its model first."""
    tiny: TinySection | None = None
    """Make a model with random weights, in place of `path`."""
    lora: LoraOptions | None = None
    """Train an adapter on the model. Without this section all weights of the model are trained."""
    call_format: Annotated[str, Registered("call_formats")] = AUTO
    """How the model writes calls, see `agentgym list call_formats`. "auto" is the format of the model's chat template,
    and hermes for `tiny`."""
    logit_hook: Annotated[str | None, Registered("logit_hooks")] = None
    """The logit hook that restricts which tokens may be sampled, see `agentgym list logit_hooks`. By default there is
    none."""
    logit_hook_options: dict[str, Any] = {}
    """The options of the logit hook."""

    @model_validator(mode="before")
    @classmethod
    def _call_format_of_tiny(cls, section: Any) -> Any:
        is_tiny = isinstance(section, dict) and section.get("tiny") is not None
        return {**section, "call_format": FALLBACK} if is_tiny and section.get("call_format", AUTO) == AUTO else section

    @model_validator(mode="after")
    def _one_source(self) -> PolicySection:
        if self.path is None and self.tiny is None:
            raise ValueError("the recipe names no model: give policy.path, or a section [policy.tiny]")
        if self.path is not None and self.tiny is not None:
            raise ValueError(f"policy.path = {self.path!r} and [policy.tiny] are both given: leave out one of them")
        if self.tiny:
            default = {name: field.get_default() for name, field in type(self).model_fields.items()}
            of_files = [name for name in ("lora", *LoadOptions.model_fields) if getattr(self, name) != default[name]]
            if of_files:
                raise ValueError(
                    f"policy.{of_files[0]} applies only to a model loaded from policy.path: leave it out with "
                    "[policy.tiny]"
                )
        if self.quantization and not self.lora:
            raise ValueError(
                f"policy.quantization = {self.quantization!r} freezes the model's weights, so only an adapter can be "
                "trained: add [policy.lora], or leave the quantization out"
            )
        return self

    def load_options(self) -> LoadOptions:
        """Return the options for loading the model: in float32 if all of its weights are trained."""
        options = super().load_options()
        in_full = self.lora is None and self.dtype == "auto"
        return options.model_copy(update={"dtype": "float32"}) if in_full else options
