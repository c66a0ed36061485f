"""The training variant of a chat template that rewrites earlier turns, where TRL ships one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agentgym.errors import PolicyError
from agentgym.messages import Message
from agentgym.policy.formats.choice import AUTO, PROBE_CALL, PROBE_TOOL, call_format_for
from agentgym.policy.rendering import TemplateRenderer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_MARKS_WHAT_IS_TRAINED = re.compile(r"\{%-?\s*generation\s*-?%\}")


def use_training_template(tokenizer: PreTrainedTokenizerFast, template_options: dict[str, Any]) -> bool:
    """Replace a tokenizer's unusable template by TRL's training variant, if that one is usable.

    Returns: whether the template was replaced.
    """
    own = tokenizer.chat_template
    if not isinstance(own, str) or is_usable(tokenizer, template_options):
        return False
    try:
        from trl.chat_template_utils import get_training_chat_template

        tokenizer.chat_template = get_training_chat_template(tokenizer) or own
    except Exception:  # noqa: BLE001  TRL does not know the template, or the template itself raises
        return False
    if tokenizer.chat_template != own and is_usable(tokenizer, template_options):
        return True
    tokenizer.chat_template = own
    return False


def is_usable(tokenizer: PreTrainedTokenizerFast, template_options: dict[str, Any]) -> bool:
    """Return whether the tokenizer's template preserves the tokens of earlier turns."""
    try:
        tried_renderer(tokenizer, AUTO, template_options)
    except PolicyError:
        return False
    return True


def tried_renderer(
    tokenizer: PreTrainedTokenizerFast, call_format: str, template_options: dict[str, Any] | None
) -> TemplateRenderer:
    """Return a renderer, after trying it on a prompt and a tool's result. Raises: PolicyError, UnknownNameError."""
    renderer = TemplateRenderer(
        tokenizer, call_format_for(tokenizer, call_format, template_options), template_options=template_options
    )
    renderer.prompt([Message("user", "?")], [PROBE_TOOL])
    renderer.observation([Message("tool", "words", name=PROBE_CALL.name)])
    return renderer


def is_training_template(template: object) -> bool:
    """Return whether a template is one of TRL's training variants."""
    if not isinstance(template, str) or not _MARKS_WHAT_IS_TRAINED.search(template):
        return False
    try:
        from trl import chat_template_utils
    except ImportError:
        return False
    return template in [value for name, value in vars(chat_template_utils).items() if "training_chat_template" in name]
