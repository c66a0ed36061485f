"""A renderer without a tokenizer: one token per byte, so that token-exact episodes can be tested in microseconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentgym import Call, Message

PROMPT, AGENT, END, CALL = 256, 257, 258, 259
"""Control tokens: start of a message from outside, start of the agent's turn, end of a message, start of a call."""


class ByteRenderer:
    """Implements Renderer. Text becomes its UTF-8 bytes, 0..255; control tokens are above 255: no text forges them."""

    def prompt(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[int]:
        """Return the messages, then AGENT. The tools are not rendered: scripts know them."""
        return [*self._outside(messages), AGENT]

    def observation(self, messages: Sequence[Message]) -> list[int]:
        return [*self._outside(messages), AGENT]

    def parse(self, token_ids: Sequence[int]) -> Message:
        """Read the text up to the first CALL; each CALL is followed by a JSON array of name and arguments."""
        ids = list(token_ids)
        if ids[-1:] == [END]:
            ids.pop()
        pieces: list[list[int]] = [[]]
        for token in ids:
            if token == CALL:
                pieces.append([])
            else:
                pieces[-1].append(token)
        calls = tuple(_call(_text(piece), f"call_{number}") for number, piece in enumerate(pieces[1:]))
        return Message("assistant", _text(pieces[0]), calls)

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        """Return the text of each token; a part of a character is U+FFFD."""
        return [_text([token]) if token < 256 else "" for token in token_ids]

    def encode(self, message: Message) -> list[int]:
        ids = list(_bytes(message.written))
        for call in message.calls:
            ids += [CALL, *_bytes(json.dumps([call.name, call.arguments]))]
        return [*ids, END]

    @staticmethod
    def _outside(messages: Sequence[Message]) -> list[int]:
        ids: list[int] = []
        for message in messages:
            ids += [PROMPT, *_bytes(message.written), END]
        return ids


def _call(text: str, call_id: str) -> Call:
    try:
        name, arguments = json.loads(text)
        if isinstance(name, str) and isinstance(arguments, dict):
            return Call(name, arguments, call_id)
        wrong = "the name must be a string and the arguments an object"
    except (ValueError, TypeError, RecursionError) as error:
        wrong = str(error)
    return Call("", {}, call_id, f'This is no call: {wrong[:200]}. Write ["name", {{"argument": value}}].')


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _text(ids: Sequence[int]) -> str:
    return bytes(token if token < 256 else 63 for token in ids).decode("utf-8", "replace")
