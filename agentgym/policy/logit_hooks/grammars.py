"""Grammars of bytes that any call format can use: a call that is forced, a JSON object, and thoughts before either."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from agentgym.policy.logit_hooks.token_automaton import Grammar, as_bytes
from agentgym.thoughts import THOUGHTS

SPACES = " \t\r\n"
MAX_DEPTH = 16
"""The greatest depth of brackets in a JSON object."""
_MARKS = [as_bytes(mark) for marks in THOUGHTS.items() for mark in marks]
_CONTROL = "".join(map(chr, range(32)))


_NUMBER: Mapping[str, Sequence[tuple[str, str]]] = {
    "-": [("0", "0"), ("123456789", "1")],
    "0": [(".", "."), ("eE", "e")],
    "1": [("0123456789", "1"), (".", "."), ("eE", "e")],
    ".": [("0123456789", ".1")],
    ".1": [("0123456789", ".1"), ("eE", "e")],
    "e": [("+-", "e+"), ("0123456789", "e1")],
    "e+": [("0123456789", "e1")],
    "e1": [("0123456789", "e1")],
}
"""For each JsonState.typed in a number: which bytes may follow, and the JsonState.typed after them."""


def progress(text: str, marks: Sequence[str]) -> str:
    """Return the longest suffix of a text that is a prefix of one of the marks."""
    ends = (text[at:] for at in range(len(text) + 1))
    return next(end for end in ends if any(mark.startswith(end) for mark in marks))


class ForcedCall:
    """A message that begins with one of `openings`, each the beginning of a call. What follows it is free."""

    decisive = ""
    settings: Mapping[str, Any] = {}
    start: Hashable = ""

    def __init__(self, openings: Iterable[str]) -> None:
        self._openings = [as_bytes(opening) for opening in openings]

    def is_free(self, state: str) -> bool:
        return state == FREE

    def may_end(self, state: str) -> bool:
        return state == FREE

    def step(self, state: str, byte: str) -> Hashable | None:
        if state == FREE:
            return FREE
        typed = state + byte
        if typed in self._openings:
            return FREE
        return typed if any(opening.startswith(typed) for opening in self._openings) else None


FREE = "the call has begun"
"""The state after an opening."""


class JsonState(NamedTuple):
    """The position in a JSON text.

    Attributes:
        open: the brackets that are open.
        expects: "value", "first" (a value or an end), "key", "colon", "comma", "end", or what is being written:
            "string", "escape", "hex", "number" or "word".
        typed: the word so far, the digits of an escape, a shorter number with the same continuations, or the part of a
            mark that a string ends with.
        is_key: whether the string is a key.
    """

    open: str = ""
    expects: str = "value"
    typed: str = ""
    is_key: bool = False


class JsonObject:
    """One JSON object (RFC 8259) and nothing else, at most MAX_DEPTH brackets deep, without marks of THOUGHTS in it."""

    decisive = '"\\' + _CONTROL + "".join({mark[-1] for mark in _MARKS})
    settings: Mapping[str, Any] = {}
    start: Hashable = JsonState(expects="object")

    def is_free(self, state: JsonState) -> bool:
        return state.expects == "string"

    def may_end(self, state: JsonState) -> bool:
        return state.expects == "end"

    def step(self, state: JsonState, byte: str) -> Hashable | None:
        following: JsonState | None = getattr(self, f"_in_{state.expects}")(state, byte)
        return following

    def _in_object(self, state: JsonState, byte: str) -> JsonState | None:
        return JsonState("{", "first") if byte == "{" else None

    def _in_first(self, state: JsonState, byte: str) -> JsonState | None:
        if byte in "}]":
            return self._closed(state, byte)
        return self._in_key(state, byte) if state.open[-1] == "{" else self._in_value(state, byte)

    def _in_key(self, state: JsonState, byte: str) -> JsonState | None:
        if byte in SPACES:
            return state
        return JsonState(state.open, "string", is_key=True) if byte == '"' else None

    def _in_colon(self, state: JsonState, byte: str) -> JsonState | None:
        return state._replace(expects="value") if byte == ":" else state if byte in SPACES else None

    def _in_value(self, state: JsonState, byte: str) -> JsonState | None:
        if byte in SPACES:
            return state
        if byte == '"':
            return JsonState(state.open, "string")
        if byte in "{[":
            return JsonState(state.open + byte, "first") if len(state.open) < MAX_DEPTH else None
        if byte in "-0123456789":
            return state._replace(expects="number", typed=byte if byte in "-0" else "1")
        return state._replace(expects="word", typed=byte) if byte in "tfn" else None

    def _in_comma(self, state: JsonState, byte: str) -> JsonState | None:
        if byte == ",":
            return JsonState(state.open, "key" if state.open[-1] == "{" else "value")
        return state if byte in SPACES else self._closed(state, byte)

    def _in_string(self, state: JsonState, byte: str) -> JsonState | None:
        if byte == '"':
            return JsonState(state.open, "colon" if state.is_key else "comma")
        if byte == "\\":
            return state._replace(expects="escape", typed="")
        typed = progress(state.typed + byte, _MARKS)
        return state._replace(typed=typed) if byte >= " " and typed not in _MARKS else None

    def _in_escape(self, state: JsonState, byte: str) -> JsonState | None:
        if byte == "u":
            return state._replace(expects="hex", typed="")
        return state._replace(expects="string") if byte in '"\\/bfnrt' else None

    def _in_hex(self, state: JsonState, byte: str) -> JsonState | None:
        typed = state.typed + byte
        if byte not in "0123456789abcdefABCDEF" or typed.lower() in ("d8", "d9", "da", "db", "dc", "dd", "de", "df"):
            return None  # no halves of surrogate pairs
        return state._replace(expects="string", typed="") if len(typed) == 4 else state._replace(typed=typed)

    def _in_number(self, state: JsonState, byte: str) -> JsonState | None:
        for bytes_, following in _NUMBER[state.typed]:
            if byte in bytes_:
                return state._replace(typed=following)
        return self._in_comma(JsonState(state.open, "comma"), byte) if state.typed[-1] in "01" else None

    def _in_word(self, state: JsonState, byte: str) -> JsonState | None:
        typed = state.typed + byte
        if typed in ("true", "false", "null"):
            return JsonState(state.open, "comma")
        is_begun = any(word.startswith(typed) for word in ("true", "false", "null"))
        return state._replace(typed=typed) if is_begun else None

    def _in_end(self, state: JsonState, byte: str) -> JsonState | None:
        return None

    def _closed(self, state: JsonState, byte: str) -> JsonState | None:
        if state.open[-1] + byte not in ("{}", "[]"):
            return None
        return JsonState(state.open[:-1], "comma" if state.open[1:] else "end")


class ThoughtState(NamedTuple):
    """The position before the grammar's text. `closing`: the mark that closes the present thought; "" outside one."""

    typed: str = ""
    closing: str = ""


class AfterThoughts:
    """Thoughts, which are free, and then the text of a grammar.

    Args:
        begun_thought: the opening mark of the thought that the prompt has begun; "" if none.
    """

    def __init__(self, grammar: Grammar, begun_thought: str = "") -> None:
        self._grammar, self.decisive = grammar, grammar.decisive
        self.settings: Mapping[str, Any] = {}
        self.start: Hashable = ThoughtState(closing=THOUGHTS.get(begun_thought, ""))

    def is_free(self, state: Any) -> bool:
        return bool(state.closing) if isinstance(state, ThoughtState) else self._grammar.is_free(state)

    def may_end(self, state: Any) -> bool:
        return not isinstance(state, ThoughtState) and self._grammar.may_end(state)

    def step(self, state: Any, byte: str) -> Hashable | None:
        if not isinstance(state, ThoughtState):
            return self._grammar.step(state, byte)
        if state.closing:
            typed = progress(state.typed + byte, [as_bytes(state.closing)])
            return ThoughtState() if typed == as_bytes(state.closing) else state._replace(typed=typed)
        typed = (state.typed + byte).lstrip(SPACES)
        for opening, closing in THOUGHTS.items():
            if typed == as_bytes(opening):
                return ThoughtState(closing=closing)
        if any(as_bytes(opening).startswith(typed) for opening in THOUGHTS):
            return ThoughtState(typed)
        following: Hashable | None = self._grammar.start
        for earlier in typed:
            following = None if following is None else self._grammar.step(following, earlier)
        return following
