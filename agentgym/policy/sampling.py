"""One token for every row of a batch: from logits to tokens and the log-probabilities they were drawn with."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from agentgym.policy.contract import Sampling


def uniforms(sampling: Sampling, count: int) -> NDArray[np.float64]:
    """Return [count] numbers in [0, 1), one per token, that depend only on the request's seed."""
    return np.random.Generator(np.random.Philox(sampling.seed)).random(count)


def draw(
    logits: torch.Tensor, uniform: torch.Tensor, temperature: torch.Tensor, top_p: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw tokens by inverting the cumulative distribution, so that a row's token depends only on its own number.

    Args:
        logits: [B, V], any float type; computed on in float64.
        uniform: [B] in [0, 1).
        temperature: [B] >= 0; 0 takes the likeliest token.
        top_p: [B] in (0, 1]; the smallest set of likeliest tokens that holds this much probability.
    Returns: [B] int64 tokens, and [B] float64 natural-log probabilities under the distribution that was drawn from:
        tempered and, with top_p below 1, truncated and normalised anew. For temperature 0, whose
        log-probability would always be 0, it is the one at temperature 1.
    """
    greedy = temperature == 0
    scale = torch.where(greedy, torch.ones_like(temperature), temperature).to(torch.float64)
    logprobs = torch.log_softmax(logits.to(torch.float64) / scale[:, None], dim=-1)
    if bool((top_p < 1).any()):
        logprobs = truncate(logprobs, torch.where(greedy, torch.ones_like(top_p), top_p))
    mass = logprobs.exp().cumsum(dim=-1)
    # The last entry of the sum is not exactly 1.0, because of rounding.
    tokens = torch.searchsorted(mass, (uniform * mass[:, -1])[:, None], right=True)[:, 0]
    tokens = tokens.clamp(max=logits.shape[-1] - 1)
    if bool(greedy.any()):
        tokens = torch.where(greedy, logprobs.argmax(dim=-1), tokens)
    return tokens, logprobs.gather(1, tokens[:, None])[:, 0]


def restrict(logits: torch.Tensor, ids: torch.Tensor, *, allowed: bool) -> None:
    """Set logits [V] to -inf, in place: those of all tokens but `ids` [n] if they are allowed, else those of `ids`."""
    values = logits[ids] if allowed else -torch.inf
    if allowed:
        logits.fill_(-torch.inf)
    logits[ids] = values


def truncate(logprobs: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Return log-probabilities with tokens outside the nucleus at -inf, renormalised. The likeliest token stays."""
    ordered, order = logprobs.exp().sort(dim=-1, descending=True)
    before = ordered.cumsum(dim=-1) - ordered
    outside = torch.zeros_like(before, dtype=torch.bool).scatter(1, order, before >= top_p[:, None])
    outside.scatter_(1, order[:, :1], False)
    return torch.log_softmax(logprobs.masked_fill(outside, -torch.inf), dim=-1)
