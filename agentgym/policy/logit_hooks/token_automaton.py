"""Masks of tokens from a grammar of bytes: a token may follow if the grammar accepts each of its bytes.

Source: Willard and Louf 2023, arXiv:2307.09702 (masks by state of an automaton).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from agentgym.errors import PolicyError
from agentgym.trajectory import TokenMask


class Grammar(Protocol):
    """An automaton over the UTF-8 bytes of a turn. A byte is represented by the character with its number.

    Attributes:
        decisive: the only bytes that a free state may refuse.
        settings: the settings of the grammar as JSON, from which a vLLM server rebuilds it.
    """

    decisive: str
    settings: Mapping[str, Any]

    @property
    def start(self) -> Hashable:
        """The first state."""
        ...

    def step(self, state: Any, byte: str) -> Hashable | None:
        """Return the state after a byte; None if it may not follow."""
        ...

    def is_free(self, state: Any) -> bool:
        """Return whether every token without decisive bytes may follow."""
        ...

    def may_end(self, state: Any) -> bool:
        """Return whether the turn may end here."""
        ...


class TokenTable:
    """The bytes of every token of a byte-level BPE, as text with one character per byte.

    Args:
        tokenizer: a transformers tokenizer.
        end_ids: tokens that end a turn.
    Raises: PolicyError for any other kind of tokenizer, whose token texts would depend on the tokens before.
    """

    def __init__(self, tokenizer: Any, end_ids: Sequence[int]) -> None:
        if '"ByteLevel"' not in json.dumps(json.loads(tokenizer.backend_tokenizer.to_str()).get("decoder")):
            raise PolicyError(
                "A logit hook over bytes needs a tokenizer with byte-level BPE, which this model does not have. "
                "Choose another model, or leave the hook out."
            )
        self.end_ids = tuple(sorted(set(end_ids)))
        added = tokenizer.added_tokens_decoder
        written = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        self.texts = [
            as_bytes(text) if token in added else "".join(_BYTES.get(character, "") for character in text or "")
            for token, text in enumerate(written)
        ]

    @cached_property
    def fingerprint(self) -> str:
        """A hash that differs between models with different tokens."""
        return hashlib.sha256("\0".join(self.texts).encode()).hexdigest()[:16]


def as_bytes(text: str) -> str:
    """Return the UTF-8 bytes of a text, as one character per byte."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
"""The bytes that the byte-level BPE of GPT-2 writes as the character with the same number."""
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
_BYTES = {chr(byte): chr(byte) for byte in _PRINTABLE} | {chr(256 + i): chr(byte) for i, byte in enumerate(_OTHERS)}


class TokenAutomaton:
    """The masks of a grammar's states, each computed once."""

    def __init__(self, grammar: Grammar, table: TokenTable) -> None:
        self.grammar, self.table = grammar, table
        self._masks: dict[Hashable, TokenMask | None] = {}
        decisive = set(grammar.decisive)
        ends = set(table.end_ids)
        self._ids = [token for token in range(len(table.texts)) if token not in ends]
        self._deciding_ids = [token for token in self._ids if decisive & set(table.texts[token])]

    def mask(self, state: Hashable) -> TokenMask | None:
        """Return the mask of a state; None if any token may follow. Raises: PolicyError if none may."""
        if state not in self._masks:
            self._masks[state] = self._compute(state)
        return self._masks[state]

    def after(self, state: Hashable, token: int) -> Hashable:
        """Return the state after an allowed token. An end token does not change the state."""
        if token in self.table.end_ids or token >= len(self.table.texts):
            return state
        following = self._run(state, self.table.texts[token])
        if following is None:
            raise PolicyError(f"The token {token} is not allowed in the logit hook's state {state!r}.")
        return following

    def _compute(self, state: Hashable) -> TokenMask | None:
        is_free = self.grammar.is_free(state)
        doubtful = self._deciding_ids if is_free else self._ids
        refused = [token for token in doubtful if self._run(state, self.table.texts[token]) is None]
        if not self.grammar.may_end(state):
            refused += self.table.end_ids
        if not refused:
            return None
        if is_free:
            return TokenMask(tuple(sorted(refused)), allowed=False)
        left = {*self._ids, *self.table.end_ids} - set(refused)
        if not left:
            raise PolicyError(
                f"The logit hook allows no token of this model in its state {state!r}. Choose another hook, or "
                "another model."
            )
        return TokenMask(tuple(sorted(left)), allowed=True)

    def _run(self, state: Hashable, text: str) -> Hashable | None:
        if not text:
            return None  # an empty token would make no progress
        following: Hashable | None = state
        for byte in text:
            following = self.grammar.step(following, byte)
            if following is None:
                return None
        return following


class AutomatonHook:
    """The hook of one request: it follows the tokens of the turn through an automaton."""

    def __init__(self, automaton: TokenAutomaton) -> None:
        self.automaton = automaton
        self._state, self._read = automaton.grammar.start, 0

    def __call__(self, tokens: Sequence[int]) -> TokenMask | None:
        for token in tokens[self._read :]:
            self._state = self.automaton.after(self._state, token)
        self._read = len(tokens)
        return self.automaton.mask(self._state)
