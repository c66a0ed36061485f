"""Log-probabilities and entropies of given texts under a local model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import DynamicCache

from agentgym.policy.prefill import columns_in_parts, part_tokens

SCORED_AT_ONCE = 2**27
"""The maximum number of logits computed at once; 1 GiB in float64."""


def of_chosen(logprobs: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return [B, L] the log-probabilities of the tokens [B, L], taken from [B, L, V]."""
    return logprobs.gather(2, tokens[..., None])[..., 0]


def entropy_of_top(logprobs: torch.Tensor, tokens: torch.Tensor, *, top: int) -> torch.Tensor:
    """Return [B, L] -sum of p log p in nats over the `top` largest probabilities, from [B, L, V] log-probabilities."""
    likeliest = logprobs.topk(min(top, logprobs.shape[-1])).values.exp()
    return -torch.special.xlogy(likeliest, likeliest).sum(-1)


def score(
    model: Any,
    pad_token_id: int,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    read: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = of_chosen,
) -> Iterator[list[float]]:
    """Yield the natural-log probability of each continuation token after its prefix, teacher-forced, temperature 1.

    Tokens and logits of a forward pass are bounded: it has several pairs, or some columns of one.

    Args:
        pairs: (prefix, continuation), each of at least one token.
        read: maps log-probabilities and tokens to the values yielded; see `of_chosen`.
    """
    vocabulary = model.config.get_text_config().vocab_size
    at_once = min(part_tokens(model.device), max(1, SCORED_AT_ONCE // vocabulary))
    rows = max(1, at_once // max(len(prefix) + len(rest) for prefix, rest in pairs))
    for start in range(0, len(pairs), rows):
        with torch.no_grad():
            scores = _score(model, pad_token_id, pairs[start : start + rows], read, at_once)
        yield from scores


def _score(
    model: Any,
    pad_token_id: int,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    read: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    at_once: int,
) -> list[list[float]]:
    """Score pairs together, `at_once` tokens in a forward pass."""
    width = max(len(prefix) + len(rest) for prefix, rest in pairs)
    longest = max(len(rest) for _, rest in pairs)
    ids = np.full((len(pairs), width), pad_token_id)
    mask = np.zeros((len(pairs), width), np.int64)
    for index, (prefix, rest) in enumerate(pairs):
        ids[index, width - len(prefix) - len(rest) :] = [*prefix, *rest]
        mask[index, width - len(prefix) - len(rest) :] = 1
    tokens, held = (torch.from_numpy(array).to(model.device) for array in (ids, mask))
    positions = (held.cumsum(1) - 1).clamp(min=0)
    cache, values = DynamicCache(config=model.config), list[torch.Tensor]()
    for begin, end in columns_in_parts(len(pairs), width - 1, at_once, cache):
        scored = end - max(begin, width - longest - 1)
        out = model(
            input_ids=tokens[:, begin:end],
            attention_mask=held[:, :end],
            position_ids=positions[:, begin:end],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=max(scored, 1),
        )
        if scored > 0:
            logprobs = torch.log_softmax(out.logits.to(torch.float64), dim=-1)
            values.append(read(logprobs, tokens[:, end - scored + 1 : end + 1]))
    scores = torch.cat(values, 1).tolist()
    return [row[longest - len(rest) :] for row, (_, rest) in zip(scores, pairs, strict=True)]
