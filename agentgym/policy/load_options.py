"""How a local model is loaded: the same options in a recipe's [policy] and as --policy-option."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ValidationError

from agentgym.errors import PolicyError
from agentgym.options import Section


class LoadOptions(Section):
    """How the weights, the tokenizer and the chat template of a local model are loaded.

    `dtype`: of the weights. "auto" is float32 on a CPU and that of the checkpoint elsewhere; where training changes all
    weights it is float32 everywhere.
    `attention`: its implementation, for example sdpa, eager or flash_attention_2; by default transformers chooses.
    `revision`: branch, tag or commit of a hub model.
    `base`: the model that a LoRA adapter belongs to; by default the one that the adapter names.
    `tokenizer`: a folder or hub model with another tokenizer than the model's own.
    `chat_template`: a Jinja file in place of the tokenizer's own template.
    `template_options`: variables of the template, for example `{enable_thinking = false}`.
    `quantization`: `nf4` keeps the weights in 4 bits (needs the extra `quantized`); in training together with a LoRA
    adapter only.
    """

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    attention: str | None = None
    revision: str | None = None
    base: str | None = None
    tokenizer: str | None = None
    chat_template: str | None = None
    template_options: dict[str, Any] = {}
    quantization: Literal["nf4"] | None = None

    def load_options(self) -> LoadOptions:
        """Only these options, of a section that has more."""
        return LoadOptions(**{name: getattr(self, name) for name in LoadOptions.model_fields})

    @classmethod
    def checked(cls, **options: Any) -> LoadOptions:
        """Make the options. Raises: PolicyError naming those that are wrong, in one line."""
        try:
            return cls(**options)
        except ValidationError as error:
            items = error.errors(include_url=False)
            problems = [f"{item['loc'][0]} = {item['input']!r}: {item['msg']}" for item in items]
            raise PolicyError("; ".join(problems)) from error
