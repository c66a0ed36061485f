"""A copy of a network that follows it slowly: the target of its own bootstrapped values."""

from __future__ import annotations

import torch


@torch.no_grad()
def move_towards(copy: torch.nn.Module, network: torch.nn.Module, share: float) -> None:
    """Move the weights of a copy towards those of its network. `share`: of the distance, 0 to 1."""
    for slow, fast in zip(copy.parameters(), network.parameters(), strict=True):
        slow.lerp_(fast, share)
