"""`known_tools`: an agent's calls name tools that exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentgym.policy import Request
from agentgym.policy.logit_hooks import HermesMasks, HookMaker, LogitHook, with_vllm_form

if TYPE_CHECKING:  # rendering imports tokenizers
    from agentgym.policy import TemplateRenderer


@with_vllm_form
def known_tools(renderer: TemplateRenderer, end_ids: Sequence[int]) -> HookMaker:
    """Restrict calls: a call must be complete and name a tool that the request offers. Other text is not restricted.

    Raises: PolicyError for a call format other than `hermes`, or a tokenizer that is not byte-level BPE.
    """
    masks = HermesMasks(renderer, end_ids, hook="known_tools")

    def make(request: Request) -> LogitHook:
        return masks.hook(tool_names(request))

    return make


def tool_names(request: Request) -> frozenset[str]:
    """Return the names of the tools that a request offers."""
    return frozenset(str(tool.get("function", tool)["name"]) for tool in request.tools)
