"""Log-probabilities and entropies of given texts under a local model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

SCORED_AT_ONCE = 2**27  # the most logits computed at once; 1 GiB in float64


def of_chosen(logprobs: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return [B, L] the log-probabilities of the tokens [B, L], taken from [B, L, V]."""
    return logprobs.gather(2, tokens[..., None])[..., 0]


def entropy_of_top(logprobs: torch.Tensor, tokens: torch.Tensor, *, top: int) -> torch.Tensor:
    """Return [B, L] -sum of p log p in nats over the `top` largest probabilities, from [B, L, V] log-probabilities."""
    likeliest = logprobs.topk(min(top, logprobs.shape[-1])).values.exp()
    return -torch.special.xlogy(likeliest, likeliest).sum(-1)


@torch.no_grad()
def score(
    model: Any,
    pad_token_id: int,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    read: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = of_chosen,
) -> list[list[float]]:
    """Return the natural-log probability of each continuation token after its prefix, teacher-forced, temperature 1.

    Args:
        pairs: (prefix, continuation), each of at least one token. The pairs are split into several batches if their
            logits would fill the memory.
        read: maps log-probabilities and tokens to the values returned; see `of_chosen`.
    """
    columns = max(len(rest) for _, rest in pairs) + 1
    rows = max(1, SCORED_AT_ONCE // (columns * model.config.get_text_config().vocab_size))
    starts = range(0, len(pairs), rows)
    return [scores for start in starts for scores in _score(model, pad_token_id, pairs[start : start + rows], read)]


def _score(
    model: Any,
    pad_token_id: int,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    read: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> list[list[float]]:
    width = max(len(prefix) + len(rest) for prefix, rest in pairs)
    longest = max(len(rest) for _, rest in pairs)
    ids = np.full((len(pairs), width), pad_token_id)
    mask = np.zeros((len(pairs), width), np.int64)
    for index, (prefix, rest) in enumerate(pairs):
        ids[index, width - len(prefix) - len(rest) :] = [*prefix, *rest]
        mask[index, width - len(prefix) - len(rest) :] = 1
    tokens, held = (torch.from_numpy(array).to(model.device) for array in (ids, mask))
    out = model(
        input_ids=tokens,
        attention_mask=held,
        position_ids=(held.cumsum(1) - 1).clamp(min=0),
        use_cache=False,
        logits_to_keep=longest + 1,
    )
    logprobs = torch.log_softmax(out.logits[:, :-1].to(torch.float64), dim=-1)
    values: list[list[float]] = read(logprobs, tokens[:, -longest:]).tolist()
    return [row[longest - len(rest) :] for row, (_, rest) in zip(values, pairs, strict=True)]
