"""The texts of a run's tokens, from the tokenizer file beside its checkpoints, without a tokenizer library."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agentgym.text import visible

MAX_BYTES = 200_000_000
"""The maximum size of a tokenizer file: at least ten times as large as published ones."""


class Vocabulary:
    """Pieces of text by token id. Ids missing in the file have no piece; without a file, no id has a piece."""

    def __init__(self, pieces: dict[int, str] | None = None) -> None:
        self._pieces = pieces or {}

    def __len__(self) -> int:
        return len(self._pieces)

    def of(self, ids: Iterable[int]) -> dict[int, str]:
        r"""Return the pieces of these ids, made visible; bytes that do not form a character appear like `\xe2`."""
        return {i: visible(self._pieces[i]) for i in set(ids) if i in self._pieces}

    @classmethod
    def load(cls, file: Path) -> Vocabulary:
        """Read a `tokenizer.json` in the format of Hugging Face's tokenizers; empty if it cannot be read."""
        try:
            if file.stat().st_size > MAX_BYTES:
                return cls()
            data = json.loads(file.read_text(encoding="utf-8"))
            return cls(_pieces(data))
        except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
            return cls()


def tokenizer_file(run: Path, policy: str | None = None) -> Path | None:
    """Return the newest tokenizer file of a run's checkpoints, or of the checkpoint folder that it started from."""
    files = [path for path in (run / "checkpoints").glob("*/tokenizer.json") if path.is_file()]
    if files:
        return max(files, key=lambda path: path.stat().st_mtime)
    initial = Path(policy) / "tokenizer.json" if policy else None
    return initial if initial is not None and initial.is_file() else None


def _pieces(data: dict[str, Any]) -> dict[int, str]:
    vocabulary = data["model"]["vocab"]
    raw = (
        {index: token for token, index in vocabulary.items()}
        if isinstance(vocabulary, dict)
        else {index: entry[0] for index, entry in enumerate(vocabulary)}  # Unigram: token and score
    )
    decode = _of_bytes if _is_byte_level(data) else _of_words
    pieces = {int(index): decode(str(token)) for index, token in raw.items()}
    pieces.update({int(token["id"]): str(token["content"]) for token in data.get("added_tokens") or []})
    return pieces


def _is_byte_level(data: dict[str, Any]) -> bool:
    """Return whether a piece's characters represent bytes, as in GPT-2's vocabulary."""
    return '"ByteLevel"' in json.dumps([data.get("pre_tokenizer"), data.get("decoder")])


def _of_bytes(token: str) -> str:
    raw = bytearray()
    for char in token:
        if char not in _BYTE_OF:
            return token
        raw.append(_BYTE_OF[char])
    return raw.decode("utf-8", errors="backslashreplace")


def _of_words(token: str) -> str:
    # SentencePiece writes single bytes this way
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        byte = int(token[3:5], 16)
        return chr(byte) if byte < 128 else f"\\x{byte:02x}"
    return token.replace("\N{LOWER ONE EIGHTH BLOCK}", " ")


def _byte_characters() -> dict[str, int]:
    """Return GPT-2's byte characters: printable Latin-1 represents itself, other bytes are U+0100 onwards in order."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTE_OF = _byte_characters()
