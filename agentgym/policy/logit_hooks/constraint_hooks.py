"""Hooks that enforce the constraints of a request: a call that must be made, or a text that must be JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from agentgym.errors import PolicyError
from agentgym.messages import Call, Message
from agentgym.policy.contract import Request
from agentgym.policy.logit_hooks.grammars import AfterThoughts, ForcedCall, JsonObject
from agentgym.policy.logit_hooks.token_automaton import AutomatonHook, Grammar, TokenAutomaton, TokenTable

if TYPE_CHECKING:  # rendering imports tokenizers
    from agentgym.policy.rendering import TemplateRenderer


class ConstraintHooks:
    """Makes the hooks of requests for one model, and computes the masks of each grammar once.

    A call that must be made begins the message, after thoughts: its opening is forced as the call format writes it, up
    to the arguments, and the rest is free.

    Args:
        renderer: renders the policy's conversations. end_ids: tokens that end a turn.
    """

    def __init__(self, renderer: TemplateRenderer, end_ids: Sequence[int]) -> None:
        self._renderer, self._end_ids = renderer, end_ids
        self._automata: dict[str, TokenAutomaton] = {}

    def hook(self, request: Request) -> AutomatonHook | None:
        """Return the hook of a request; None if it has no binding constraint.

        Raises: PolicyError for a JSON Schema, for a call that the format cannot write, and for a tokenizer that is not
            byte-level BPE.
        """
        constraints = request.constraints
        if not constraints.is_binding:
            return None
        if constraints.response_format and not constraints.tool_choice:
            raise PolicyError(
                "The policy can be made to write a JSON object, but not one of a given schema. Ask for the "
                "response_format json_object."
            )
        tools = [tool for tool in request.tools if _name(tool) in constraints.tool_choice]
        key = json.dumps(tools, sort_keys=True)
        if key not in self._automata:
            openings = [opening_of(self._renderer, tool) for tool in tools]
            grammar: Grammar = ForcedCall(openings) if openings else JsonObject()
            self._automata[key] = TokenAutomaton(AfterThoughts(grammar, self._renderer.begun_thought), self._table)
        return AutomatonHook(self._automata[key])

    @cached_property
    def _table(self) -> TokenTable:
        return TokenTable(self._renderer.tokenizer, self._end_ids)


def opening_of(renderer: TemplateRenderer, tool: Mapping[str, Any]) -> str:
    """Return how a model begins each call of a tool: what calls with different arguments have in common.

    Raises: PolicyError if the call format cannot write calls of the tool.
    """
    parameters = tool.get("function", tool).get("parameters") or {}
    argument = next(iter(parameters.get("properties") or {}), "argument")
    written = []
    for arguments in ({}, {argument: "a"}, {argument: "b"}):
        try:
            written.append(renderer.written(Message("assistant", "", (Call(_name(tool), arguments),))))
        except PolicyError:
            continue
    alike = takewhile(lambda same: len(set(same)) == 1, zip(*written, strict=False))
    opening = "".join(characters[0] for characters in alike).lstrip()
    if len(written) < 2 or not opening:
        raise PolicyError(
            f"The call format {renderer.call_format.name!r} has no opening of a call of {_name(tool)!r} that could be "
            "forced. Ask without tool_choice."
        )
    return opening


def _name(tool: Mapping[str, Any]) -> str:
    return str(tool.get("function", tool)["name"])
