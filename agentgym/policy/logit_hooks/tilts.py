"""Value-guided decoding: the logits of a turn are raised by what a network says the tokens are worth.

Source: ILQL, Snell et al. 2022, arXiv:2206.11871 (beta (Q - V) is added to the logits); Q#, Zhou et al. 2025,
arXiv:2502.20548 (the log of the expected exp(return / eta) after each token is added).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch

from agentgym.errors import PolicyError

if TYPE_CHECKING:
    from agentgym.trajectory import TokenMask


@runtime_checkable
class LogitTilt(Protocol):
    """A logit hook that changes logits. Log-probabilities refer to the changed distribution.

    The changes are not recorded. So its episodes can be used for measurement and imitation, but not for training on
    their log-probabilities.
    """

    def __call__(self, tokens: Sequence[int]) -> TokenMask | None:
        """Return None, since no token is masked."""
        ...

    def tilt(self, tokens: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        """Return [V] the next token's logits, from the model's own [V] and the tokens sampled so far in this turn."""
        ...


class TokenValues(Protocol):
    """Predicts the value of the next token."""

    def gains(self, ids: Sequence[int], candidates: Sequence[int]) -> torch.Tensor:
        """Return [n] the amount to add to the logit of each candidate after the token ids `ids`."""
        ...


class GuidedTurn:
    """The hook of one request.

    Args:
        values: the values of tokens.
        prefix: token ids before the turn.
        candidates: how many of the likeliest tokens are scored; the others cannot be sampled. None scores all tokens.
    """

    def __init__(self, values: TokenValues, prefix: Sequence[int], candidates: int | None = None) -> None:
        if candidates is not None and candidates < 1:
            raise PolicyError(f"candidates = {candidates}: value-guided decoding needs one token to choose at least.")
        self._values, self._prefix, self._candidates = values, list(prefix), candidates

    def __call__(self, tokens: Sequence[int]) -> TokenMask | None:
        return None

    def tilt(self, tokens: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        count = logits.shape[0] if self._candidates is None else min(self._candidates, logits.shape[0])
        likeliest = logits.topk(count).indices if count < logits.shape[0] else torch.arange(count, device=logits.device)
        gains = self._values.gains([*self._prefix, *tokens], likeliest.tolist())
        tilted = torch.full_like(logits, -torch.inf, dtype=torch.float64)
        tilted[likeliest] = logits[likeliest].double() + gains.double().to(logits.device)
        return tilted
