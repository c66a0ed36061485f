"""`protocol`: an agent calls tools, and answers, in an order that a formula allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentgym.errors import PolicyError
from agentgym.policy.contract import Request
from agentgym.policy.logit_hooks.contract import HookMaker, LogitHook
from agentgym.policy.logit_hooks.hermes_turns import HermesTurns
from agentgym.policy.logit_hooks.known_tools import require_hermes, tool_names
from agentgym.policy.logit_hooks.served_masks import with_vllm_form
from agentgym.policy.logit_hooks.token_automaton import AutomatonHook, TokenAutomaton, TokenTable
from agentgym.protocol import Protocol, step_of

if TYPE_CHECKING:  # rendering needs tokenizers
    from agentgym.policy.rendering import TemplateRenderer


@with_vllm_form
def protocol(
    renderer: TemplateRenderer, end_ids: Sequence[int], *, formula: str, ending_tools: Sequence[str] = ()
) -> HookMaker:
    """In each turn, call one of the tools, or answer, as the formula allows after the turns before.

    What is allowed leaves a way to end the episode so that the formula holds. A budget may end it before. A turn makes
    one call at most. Where the turns before have broken the formula already, nothing is restricted.

    Args:
        formula: see agentgym.protocol. ending_tools: tools whose call ends the episode, such as `submit`.
    Raises: PolicyError for a formula that cannot be read, for another call format than `hermes`, and for another
        tokenizer than byte-level BPE; at the first turn, if no episode with its tools can keep the formula.
    """
    require_hermes(renderer, "protocol")
    try:
        order = Protocol(formula, ending_tools=ending_tools)
    except ValueError as error:
        raise PolicyError(f"The logit hook 'protocol': {error}.") from error
    table = TokenTable(renderer.tokenizer, end_ids)
    automata: dict[tuple[frozenset[str], bool], TokenAutomaton] = {}

    def make(request: Request) -> LogitHook | None:
        agent_messages = [message for message in request.messages if message.role == "assistant"]
        turns = agent_messages[len(agent_messages) - request.turn :]  # an opening may show examples
        allowed = order.allowed(order.after(map(step_of, turns)), tool_names(request))
        if allowed == (frozenset(), False):
            if not turns:
                raise PolicyError(
                    f"No episode with the tools {', '.join(sorted(tool_names(request))) or 'none'} keeps the protocol "
                    f"{formula!r}. Name the tools that end an episode in ending_tools, or correct the formula."
                )
            return None
        if allowed not in automata:
            names, may_answer = allowed
            grammar = HermesTurns(names, may_answer=may_answer, max_calls=1, begun_thought=renderer.begun_thought)
            automata[allowed] = TokenAutomaton(grammar, table)
        return AutomatonHook(automata[allowed])

    return make
