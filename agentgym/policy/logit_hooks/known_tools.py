"""`known_tools`: an agent's calls name tools that exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentgym.errors import PolicyError
from agentgym.policy.contract import Request
from agentgym.policy.logit_hooks.contract import HookMaker, LogitHook
from agentgym.policy.logit_hooks.hermes_turns import HermesTurns
from agentgym.policy.logit_hooks.served_masks import with_vllm_form
from agentgym.policy.logit_hooks.token_automaton import AutomatonHook, TokenAutomaton, TokenTable

if TYPE_CHECKING:  # rendering needs tokenizers
    from agentgym.policy.rendering import TemplateRenderer


@with_vllm_form
def known_tools(renderer: TemplateRenderer, end_ids: Sequence[int]) -> HookMaker:
    """A call is written in full and names a tool that the request offers; text without a call stays free.

    Raises: PolicyError for another call format than `hermes`, and for another tokenizer than byte-level BPE.
    """
    require_hermes(renderer, "known_tools")
    table = TokenTable(renderer.tokenizer, end_ids)
    automata: dict[frozenset[str], TokenAutomaton] = {}

    def make(request: Request) -> LogitHook:
        names = tool_names(request)
        if names not in automata:
            grammar = HermesTurns(names, may_answer=True, begun_thought=renderer.begun_thought)
            automata[names] = TokenAutomaton(grammar, table)
        return AutomatonHook(automata[names])

    return make


def require_hermes(renderer: TemplateRenderer, hook: str) -> None:
    """Raises: PolicyError if the agent writes its calls in another format than `hermes`."""
    if renderer.call_format.name != "hermes":
        raise PolicyError(
            f"The logit hook {hook!r} knows the call format 'hermes' alone, and this model writes its calls as "
            f"{renderer.call_format.name!r}. Leave the hook out, or train the model to write 'hermes'."
        )


def tool_names(request: Request) -> frozenset[str]:
    """The names of the tools that a request offers."""
    return frozenset(str(tool.get("function", tool)["name"]) for tool in request.tools)
