"""One token for every row of a batch: from logits to tokens and the log-probabilities they were drawn with."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from agentgym.errors import PolicyError
from agentgym.policy.contract import Sampling

BLOCK = 128
"""The number of tokens in a block; see `_invert`. Our choice."""
CACHED = 2**19
"""How many probabilities a processor computes together at most, so that they stay in its cache; our choice."""
_BELOW_ONE = 1 - 2.0**-52


def uniforms(sampling: Sampling, count: int) -> NDArray[np.float64]:
    """Return [count] numbers in [0, 1), one per token, that depend only on the request's seed."""
    return np.random.Generator(np.random.Philox(sampling.seed)).random(count)


def check_finite(logprob: float) -> None:
    """Raise PolicyError for a log-probability that is NaN or infinite."""
    if not np.isfinite(logprob):
        raise PolicyError(
            "The model gave NaN or infinite logits: either its weights diverged, or its dtype overflows. Try "
            "dtype = 'float32', or an earlier checkpoint."
        )


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
        tempered and, with top_p below 1, truncated and renormalised. At temperature 0, where it would always be 0, the
        log-probability at temperature 1.
    """
    at_once = max(1, CACHED // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
    columns = (column.split(at_once) for column in (logits, uniform, temperature, top_p))
    parts = [_draw(*rows) for rows in zip(*columns, strict=True)]
    tokens, logprobs = zip(*parts, strict=True)
    return torch.cat(tokens), torch.cat(logprobs)


def _draw(
    logits: torch.Tensor, uniform: torch.Tensor, temperature: torch.Tensor, top_p: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens and log-probabilities as `draw` does, all rows at once."""
    greedy = temperature == 0
    scale = torch.where(greedy, torch.ones_like(temperature), temperature).to(torch.float64)
    scores = logits.to(torch.float64, copy=True).div_(scale[:, None])
    if bool((top_p < 1).any()):
        scores = truncate(torch.log_softmax(scores, dim=-1), torch.where(greedy, torch.ones_like(top_p), top_p))
    masses = scores.sub_(scores.amax(dim=-1, keepdim=True)).exp_()
    tokens, total = _invert(masses, uniform)
    if bool(greedy.any()):
        tokens = torch.where(greedy, logits.argmax(dim=-1), tokens)
    return tokens, (masses.gather(1, tokens[:, None])[:, 0] / total).log()


def _invert(masses: torch.Tensor, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each row's first token at which the cumulative mass exceeds `uniform` x total mass, and the total mass.

    Blocks of tokens are added up first, and only the block that holds the token is searched: a cumulative sum over a
    large vocabulary takes longer than all else.

    Args:
        masses: [B, V] float64, at least 0. uniform: [B] in [0, 1).
    Returns: [B] int64 tokens, whose mass is above 0, and [B] float64 totals.
    """
    vocabulary = masses.shape[1]
    last = vocabulary - vocabulary % BLOCK
    sums = [masses[:, :last].unflatten(1, (-1, BLOCK)).sum(-1), masses[:, last:].sum(-1, keepdim=True)]
    ends = torch.cat(sums, 1).cumsum(-1)
    total = ends[:, -1:]
    # Below the total even after rounding, so that some block, and some token in it, exceeds the number.
    number = uniform[:, None].clamp(max=_BELOW_ONE) * total
    block = torch.searchsorted(ends, number, right=True)
    before = torch.where(block > 0, ends.gather(1, (block - 1).clamp(min=0)), 0.0)
    columns = block * BLOCK + torch.arange(BLOCK, device=masses.device)
    inner = masses.gather(1, columns.clamp(max=vocabulary - 1)).where(columns < vocabulary, 0.0).cumsum(-1)
    inside = torch.minimum(number - before, inner[:, -1:] * _BELOW_ONE)
    offset = torch.searchsorted(inner, inside, right=True)
    return (block * BLOCK + offset)[:, 0].clamp(max=vocabulary - 1), total[:, 0]  # clamped because of NaN


def restrict(logits: torch.Tensor, ids: torch.Tensor, *, allowed: bool) -> None:
    """Set logits [V] to -inf in place: of `ids` [n], or of all other tokens if `ids` are the allowed ones."""
    values = logits[ids] if allowed else -torch.inf
    if allowed:
        logits.fill_(-torch.inf)
    logits[ids] = values


def truncate(logprobs: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Return renormalised log-probabilities, -inf outside the nucleus. The likeliest token is always in it."""
    ordered, order = logprobs.exp().sort(dim=-1, descending=True)
    before = ordered.cumsum(dim=-1) - ordered
    outside = torch.zeros_like(before, dtype=torch.bool).scatter(1, order, before >= top_p[:, None])
    outside.scatter_(1, order[:, :1], False)
    return torch.log_softmax(logprobs.masked_fill(outside, -torch.inf), dim=-1)
