"""A dense encoder from any checkpoint, local or from the hub, that transformers can load, such as E5, BGE or MiniLM."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from agentgym import MissingExtraError, install_command

from .dense import Floats, unit

Pooling = Literal["mean", "first"]


class CheckpointEncoder:
    """Encodes texts with a transformer, on the CPU, in this process.

    Args:
        path: a checkpoint with its tokenizer: a local folder or a name on the hub.
        query_prefix, page_prefix: the text before queries and pages in the model's training; "query: " and "passage: "
            for E5.
        pooling: `mean` over the tokens (E5, MiniLM), or the `first` token (BGE).
        max_tokens: longer texts are cut.
    """

    def __init__(
        self,
        path: str,
        *,
        query_prefix: str = "",
        page_prefix: str = "",
        pooling: Pooling = "mean",
        max_tokens: int = 256,
    ) -> None:
        try:
            import torch
            from transformers import AutoModel, AutoTokenizer
        except ImportError as error:
            raise MissingExtraError(
                "An encoder from a checkpoint needs the packages torch and transformers. Run: "
                f"{install_command('train')}"
            ) from error
        self._torch = torch
        self._tokenizer = AutoTokenizer.from_pretrained(path)
        self._model: Any = AutoModel.from_pretrained(path).eval()
        self._prefixes, self._pooling, self._max_tokens = (query_prefix, page_prefix), pooling, max_tokens
        self.dimensions: int = self._model.config.hidden_size
        config = json.dumps([self._fingerprint(), query_prefix, page_prefix, pooling, max_tokens])
        self.name = f"checkpoint-{hashlib.sha256(config.encode()).hexdigest()[:16]}"

    def encode_pages(self, texts: Sequence[str]) -> Floats:
        return self._encode([self._prefixes[1] + text for text in texts])

    def encode_query(self, query: str) -> Floats:
        vector: Floats = self._encode([self._prefixes[0] + query])[0]
        return vector

    def _encode(self, texts: list[str]) -> Floats:
        tokens = self._tokenizer(texts, padding=True, truncation=True, max_length=self._max_tokens, return_tensors="pt")
        tokens.pop("token_type_ids", None)
        with self._torch.inference_mode():
            hidden = self._model(**tokens).last_hidden_state.float()
        if self._pooling == "first":
            pooled = hidden[:, 0]
        else:
            mask = tokens["attention_mask"].unsqueeze(-1)
            pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
        vectors: Floats = unit(pooled.numpy().astype(np.float32))
        return vectors

    def _fingerprint(self) -> str:
        """Return a hash of the weights: a checkpoint that is trained further in place is a different encoder."""
        digest = hashlib.sha256()
        for name, weight in sorted(self._model.state_dict().items()):
            digest.update(name.encode())
            digest.update(weight.detach().contiguous().view(-1).to(self._torch.float32).numpy().tobytes())
        return digest.hexdigest()
