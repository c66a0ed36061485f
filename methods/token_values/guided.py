"""`value_guided`: each token's logit is raised by an amount that a trained network predicts from the token's value.

Source: ILQL, Snell et al. 2022, arXiv:2206.11871 (beta (Q - V) is added to the logits); Q#, Zhou et al. 2025,
arXiv:2502.20548 (the log of the expected exp(return / eta) after each token is added).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

import torch

from agentgym import PolicyError
from agentgym.policy import Request
from agentgym.policy.logit_hooks import LogitHook
from agentgym.trajectory import TokenMask

from .networks import Scaled, load_values

if TYPE_CHECKING:  # rendering imports tokenizers
    from agentgym.policy import TemplateRenderer


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
            raise PolicyError(
                f"candidates = {candidates} is not valid: value-guided decoding must choose among at least one token."
            )
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


class ValueGuided:
    """Adds to the logits what the network in `path` predicts: `scale` (Q - V), or log E exp(scale x return).

    Args:
        path: the checkpoint of a stage `implicit_q` or `outcome_head`.
        scale: beta for `implicit_q`, 1 / eta for `outcome_head`. With 0 the logits are unchanged, but tokens beyond
            the candidates are still excluded.
        candidates: how many of the likeliest tokens are valued; 0 values all.
    Raises: PolicyError if there is no such network, or if it belongs to another vocabulary.
    """

    tilts: ClassVar[bool] = True

    def __init__(
        self, renderer: TemplateRenderer, end_ids: Sequence[int], *, path: str, scale: float = 1.0, candidates: int = 20
    ) -> None:
        if candidates < 0:
            raise PolicyError(
                f"The logit hook 'value_guided': candidates = {candidates} is not valid. Give at least 0."
            )
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._values = Scaled(load_values(path, renderer.tokenizer, device), scale)
        self._renderer, self._candidates = renderer, candidates or None

    def __call__(self, request: Request) -> LogitHook:
        prefix = request.prefix_ids or self._renderer.prompt(request.messages, request.tools)
        return GuidedTurn(self._values, prefix, self._candidates)
