"""Logit hooks that change logits instead of forbidding tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch

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
