"""Hooks that restrict turns in the call format `hermes`: the shared part of known_tools and protocol."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agentgym.errors import PolicyError
from agentgym.policy.logit_hooks.hermes_turns import HermesTurns
from agentgym.policy.logit_hooks.token_automaton import AutomatonHook, TokenAutomaton, TokenTable

if TYPE_CHECKING:  # rendering needs tokenizers
    from agentgym.policy.rendering import TemplateRenderer


class HermesMasks:
    """Makes the hooks of turns, and computes the masks of each grammar once.

    Args:
        renderer: renders the policy's conversations.
        end_ids: tokens that end a turn.
        hook: the registered name of the logit hook, for error messages.
    Raises: PolicyError for a call format other than `hermes`, or a tokenizer other than byte-level BPE.
    """

    def __init__(self, renderer: TemplateRenderer, end_ids: Sequence[int], *, hook: str) -> None:
        if renderer.call_format.name != "hermes":
            raise PolicyError(
                f"The logit hook {hook!r} supports only the call format 'hermes', but this model writes its calls as "
                f"{renderer.call_format.name!r}. Leave the hook out, or train the model to write 'hermes'."
            )
        self._begun_thought = renderer.begun_thought
        self._table = TokenTable(renderer.tokenizer, end_ids)
        self._automata: dict[tuple[frozenset[str], bool, int | None], TokenAutomaton] = {}

    def hook(self, names: Iterable[str], *, may_answer: bool = True, max_calls: int | None = None) -> AutomatonHook:
        """Return a hook for one turn, whose calls name one of these tools.

        Args:
            may_answer: whether the turn may end without a call.
            max_calls: calls that the turn may make; None for any number.
        """
        key = frozenset(names), may_answer, max_calls
        if key not in self._automata:
            grammar = HermesTurns(key[0], may_answer=may_answer, max_calls=max_calls, begun_thought=self._begun_thought)
            self._automata[key] = TokenAutomaton(grammar, self._table)
        return AutomatonHook(self._automata[key])
