"""`protocol`: an agent calls tools, and answers, in an order that a formula allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentgym import PolicyError
from agentgym.methods.protocol import Protocol, step_of
from agentgym.policy import Request
from agentgym.policy.logit_hooks import HermesMasks, HookMaker, LogitHook, with_vllm_form

from .known_tools import tool_names

if TYPE_CHECKING:  # rendering imports tokenizers
    from agentgym.policy import TemplateRenderer


@with_vllm_form
def protocol(
    renderer: TemplateRenderer, end_ids: Sequence[int], *, formula: str, ending_tools: Sequence[str] = ()
) -> HookMaker:
    """Restrict each turn to the calls and answers that the formula allows after the turns before it.

    Every allowed turn leaves a way to end the episode that satisfies the formula. A budget may end the episode earlier.
    A turn makes at most one call. If earlier turns have already broken the formula, nothing is restricted.

    Args:
        formula: see agentgym.methods.protocol. ending_tools: tools whose call ends the episode, such as `submit`.
    Raises: PolicyError for a formula that cannot be read, for another call format than `hermes`, and for another
        tokenizer than byte-level BPE; at the first turn, if no episode with its tools can keep the formula.
    """
    masks = HermesMasks(renderer, end_ids, hook="protocol")
    try:
        order = Protocol(formula, ending_tools=ending_tools)
    except ValueError as error:
        raise PolicyError(f"The logit hook 'protocol' cannot use its formula: {error}.") from error

    def make(request: Request) -> LogitHook | None:
        agent_messages = [message for message in request.messages if message.role == "assistant"]
        turns = agent_messages[len(agent_messages) - request.turn :]  # the opening may contain example turns
        allowed = order.allowed(order.after(map(step_of, turns)), tool_names(request))
        if allowed == (frozenset(), False):
            if not turns:
                raise PolicyError(
                    f"No sequence of calls of the tools {', '.join(sorted(tool_names(request))) or 'none'} can "
                    f"satisfy the protocol {formula!r}. Name the tools that end an episode in ending_tools, or "
                    "correct the formula."
                )
            return None
        names, may_answer = allowed
        return masks.hook(names, may_answer=may_answer, max_calls=1)

    return make
