"""Hooks that restrict turns in the call format `hermes`: which tools a turn may call, how often, and whether it must.

A call is written as the format itself writes it, `<tool_call>{"name": "query", "arguments": {...}}</tool_call>`: the
name is first and occurs once, and calls are not nested. Text around calls is not restricted, except that it contains no
mark of a thought and does not begin like JSON. A thought may only come first; it is not restricted, and nothing in it
is a call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agentgym.errors import PolicyError
from agentgym.policy.formats.hermes import CLOSE, OPEN
from agentgym.policy.logit_hooks.grammars import progress
from agentgym.policy.logit_hooks.token_automaton import AutomatonHook, TokenAutomaton, TokenTable, as_bytes
from agentgym.thoughts import THOUGHTS

if TYPE_CHECKING:  # rendering imports tokenizers
    from agentgym.policy.rendering import TemplateRenderer

BEFORE_NAME, AFTER_NAME = '{"name": "', '", "arguments": {'
ENDINGS = ("}" + CLOSE, "}\n" + CLOSE)
MAX_DEPTH = 16
"""The greatest depth of brackets within arguments."""


class State(NamedTuple):
    """The position in a turn.

    Attributes:
        part: "start", "thought", "text", or a part of a call: "head" up to the arguments, "arguments", or "tail".
        typed: how many characters of the text that must come next are already written.
        calls: the number of calls made; only counted if calls are limited.
        depth: the depth of the brackets in arguments.
        string: "" outside a string, "in" inside one, or "backslash" after a backslash in one.
        closing: the mark that ends the thought.
    """

    part: str
    typed: str = ""
    calls: int = 0
    depth: int = 0
    string: str = ""
    closing: str = ""


class HermesTurns:
    """See Grammar.

    Args:
        names: the names of the tools that may be called.
        may_answer: whether the turn may end without a call.
        max_calls: the maximum number of calls per turn; None for any number.
        begun_thought: the opening mark of the thought that the prompt has begun; "" if none.
    """

    decisive = '<>"\\{}[]`' + "".join(map(chr, range(32)))

    def __init__(
        self, names: Iterable[str], *, may_answer: bool, max_calls: int | None = None, begun_thought: str = ""
    ) -> None:
        ordered = sorted(names)
        self.settings: Mapping[str, Any] = {
            "names": ordered,
            "may_answer": may_answer,
            "max_calls": max_calls,
            "begun_thought": begun_thought,
        }
        written = sorted(as_bytes(json.dumps(name, ensure_ascii=False)[1:-1]) for name in ordered)
        self._heads = [BEFORE_NAME + name + AFTER_NAME for name in written]
        self._may_answer, self._max_calls = may_answer, max_calls
        self.start = State("thought", closing=THOUGHTS[begun_thought]) if begun_thought else State("start")

    def is_free(self, state: State) -> bool:
        if state.part == "start":
            return not state.typed.startswith("[")  # perhaps of a thought's mark; otherwise of JSON, which is refused
        return state.part in ("thought", "text", "arguments")

    def may_end(self, state: State) -> bool:
        is_outside = state.part in ("start", "thought", "text")
        return is_outside and (self._may_answer or state.calls > 0)

    def step(self, state: State, byte: str) -> State | None:
        following: State | None = getattr(self, f"_in_{state.part}")(state, byte)
        return following

    def _in_start(self, state: State, byte: str) -> State | None:
        typed = (state.typed + byte).lstrip(" \t\r\n\v\f")
        if typed in THOUGHTS:
            return State("thought", closing=THOUGHTS[typed])
        if any(opening.startswith(typed) for opening in THOUGHTS):
            return State("start", typed)
        if typed[0] in "{[`":  # a message that consists only of JSON is read as calls
            return None
        following: State | None = State("text")
        for earlier in typed:
            following = following and self.step(following, earlier)
        return following

    def _in_thought(self, state: State, byte: str) -> State | None:
        typed = progress(state.typed + byte, [state.closing])
        return State("start") if typed == state.closing else state._replace(typed=typed)

    def _in_text(self, state: State, byte: str) -> State | None:
        typed = progress(state.typed + byte, [OPEN, *THOUGHTS])
        if typed != OPEN:
            return state._replace(typed=typed) if typed not in THOUGHTS else None
        may_call = self._heads and (self._max_calls is None or state.calls < self._max_calls)
        return State("head", calls=state.calls) if may_call else None

    def _in_head(self, state: State, byte: str) -> State | None:
        if not state.typed and byte == "\n":
            return state
        typed = state.typed + byte
        if typed in self._heads:
            return State("arguments", calls=state.calls, depth=1)
        return state._replace(typed=typed) if any(head.startswith(typed) for head in self._heads) else None

    def _in_arguments(self, state: State, byte: str) -> State | None:
        typed = progress(state.typed + byte, [OPEN, CLOSE])
        if typed in (OPEN, CLOSE):
            return None
        state = state._replace(typed=typed)
        if state.string:  # an escape that JSON does not have makes the call malformed, and its result says so
            strings = {'"': "", "\\": "backslash"} if state.string == "in" else {}
            return state._replace(string=strings.get(byte, "in")) if byte >= " " else None
        if byte == '"':
            return state._replace(string="in")
        depth = state.depth + (byte in "{[") - (byte in "}]")
        if depth == 0:
            return State("tail", calls=state.calls)
        return state._replace(depth=depth) if depth <= MAX_DEPTH else None

    def _in_tail(self, state: State, byte: str) -> State | None:
        typed = state.typed + byte
        if typed in ENDINGS:
            return State("text", calls=state.calls + (self._max_calls is not None))
        return state._replace(typed=typed) if any(ending.startswith(typed) for ending in ENDINGS) else None


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
