"""How a local model is loaded and adapted: the same options in a recipe's [policy] and as --policy-option."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from agentgym.errors import PolicyError
from agentgym.options import Count, Section


class LoadOptions(Section):
    """How the weights, the tokenizer and the chat template of a local model are loaded."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """The dtype of the weights. "auto" is float32 on a CPU and the checkpoint's dtype elsewhere. If training changes
    all weights, it is float32 everywhere."""
    attention: str | None = None
    """The implementation of attention, for example sdpa, eager or flash_attention_2. By default transformers
    chooses."""
    revision: str | None = None
    """The branch, tag or commit of a hub model. By default it is the hub's main branch."""
    base: str | None = None
    """The model that a LoRA adapter belongs to. By default it is the model that the adapter names."""
    tokenizer: str | None = None
    """A folder or hub model whose tokenizer replaces the model's own."""
    chat_template: str | None = None
    """A Jinja file to use in place of the tokenizer's own template."""
    template_options: dict[str, Any] = {}
    """Variables of the chat template, for example `{enable_thinking = false}`."""
    quantization: Literal["nf4"] | None = None
    """`nf4` keeps the weights in 4 bits, which needs the extra `quantized`. Training accepts it only with a LoRA
    adapter."""

    def load_options(self) -> LoadOptions:
        """Return only these options, from a section that has more fields."""
        return LoadOptions(**{name: getattr(self, name) for name in LoadOptions.model_fields})

    @classmethod
    def checked(cls, **options: Any) -> LoadOptions:
        """Create the options. Raises: PolicyError, which names the wrong options in one line."""
        try:
            return cls(**options)
        except ValidationError as error:
            items = error.errors(include_url=False)
            problems = [f"{item['loc'][0]} = {item['input']!r}: {item['msg']}" for item in items]
            raise PolicyError("; ".join(problems)) from error


ALL_LINEAR = "all-linear"


class LoraOptions(Section):
    """Train a LoRA adapter: two thin matrices beside each of the model's chosen layers, whose own weights stay."""

    rank: Count = 16
    """The inner width of the two matrices."""
    alpha: Count = 32
    """The product of the two matrices is scaled by `alpha` / `rank`."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The dropout on the matrices' input while imitating. Reinforcement uses no dropout, because its episodes are
    sampled without dropout."""
    targets: str | list[str] = ALL_LINEAR
    """The names of the layers, or "all-linear" for all linear layers but the output layer."""
    roles: list[str] = []
    """Give each of these roles its own adapter of this rank. Turns without a role belong to the first role. By
    default all roles share one adapter."""

    @field_validator("roles")
    @classmethod
    def _several_names(cls, roles: list[str]) -> list[str]:
        if roles and (len(roles) < 2 or len({*roles, ""}) <= len(roles)):
            raise ValueError(f"roles = {roles} is not valid: name at least two different roles, or leave it out")
        return roles
