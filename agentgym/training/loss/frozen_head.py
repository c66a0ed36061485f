"""Scores tokens on a processor under an output layer that is not trained, in a fifth of the time of TRL's fused head.

The gradient of a token's log-probability with respect to its hidden state does not depend on the loss, so that it is
computed with the log-probability, and no logits are computed again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from trl.trainer import utils

_ROWS = 256
"""For how many tokens logits exist at once. With fewer, reading the layer's weights takes most of the time."""
_OF_TRL = utils._ChunkedLogProbFunction


class FrozenHead(torch.autograd.Function):
    """Log-probabilities and entropies of `hidden @ weight.T + bias`, of which only `hidden` has a gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
        scale: float,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return [N] log-probabilities of the targets and [N] entropies, in nats.

        Args:
            hidden: [N, d] states. weight: [V, d]. bias: [V] or None. targets: [N] tokens. scale: a factor on logits.
        """
        device = hidden.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        weight, bias = weight.to(dtype), None if bias is None else bias.to(dtype)
        log_probs, entropies = (hidden.new_empty(len(hidden), dtype=torch.float32) for _ in range(2))
        slopes = torch.empty_like(hidden, dtype=torch.float32) if ctx.needs_input_grad[0] else None
        tile = _Tile(min(len(hidden), _ROWS), weight, bias, scale)
        for rows in _chunks(len(hidden)):
            of_all, probabilities = tile.log_probs(hidden[rows])
            chosen = targets[rows, None]
            log_probs[rows] = of_all.gather(1, chosen)[:, 0]
            entropies[rows] = -of_all.mul_(probabilities).sum(1)
            if slopes is not None:
                # the difference is rounded, and not the probability, which may be almost 1
                probabilities.scatter_add_(1, chosen, torch.full_like(chosen, -1, dtype=torch.float32))
                slopes[rows] = tile.times_weight(probabilities)
        ctx.save_for_backward(hidden, weight, bias, entropies, None if slopes is None else slopes.mul_(-scale))
        ctx.scale = scale
        ctx.set_materialize_grads(False)
        return log_probs, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Return the gradient of the hidden states. `gradients`: of the log-probabilities, and of the entropies."""
        of_log_probs, of_entropies = gradients
        hidden, weight, bias, entropies, slopes = ctx.saved_tensors
        total = torch.zeros_like(slopes) if of_log_probs is None else of_log_probs[:, None] * slopes
        if of_entropies is not None:
            tile = _Tile(min(len(hidden), _ROWS), weight, bias, ctx.scale)
            for rows in _chunks(len(hidden)):
                of_all, probabilities = tile.log_probs(hidden[rows])
                slope = of_all.add_(entropies[rows, None]).mul_(probabilities)
                total[rows] += tile.times_weight(slope) * (-ctx.scale * of_entropies[rows, None])
        return total.to(hidden.dtype), None, None, None, None


class _Tile:
    """The logits of a few tokens, in memory that is used again: new memory takes longer than what is computed in it."""

    def __init__(self, rows: int, weight: torch.Tensor, bias: torch.Tensor | None, scale: float) -> None:
        self._weight, self._bias, self._scale = weight, bias, scale
        self._computed = weight.new_empty(rows, len(weight))
        self._log_probs, self._probabilities = (
            self._computed.new_empty(rows, len(weight), dtype=torch.float32) for _ in range(2)
        )

    def log_probs(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return [n, V] log-probabilities and probabilities of all tokens, until the next call. `hidden`: [n, d]."""
        logits, of_all, probabilities = (
            each[: len(hidden)] for each in (self._computed, self._log_probs, self._probabilities)
        )
        torch.mm(hidden.to(self._weight.dtype), self._weight.t(), out=logits)
        if self._bias is not None:
            logits += self._bias
        probabilities.copy_(logits).mul_(self._scale)
        torch.log_softmax(probabilities, 1, out=of_all)
        return of_all, torch.exp(of_all, out=probabilities)

    def times_weight(self, values: torch.Tensor) -> torch.Tensor:
        """Return [n, d] the product of values, [n, V], with the layer's weight."""
        return self._computed[: len(values)].copy_(values) @ self._weight


class _Head:
    """Stands for TRL's function, which it calls for all that FrozenHead does not compute."""

    @staticmethod
    def apply(
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
        temperature: float,
        chunk_size: int,
        softcap: float | None,
        logit_scale: float,
        outputs: tuple[str, ...],
    ) -> Any:
        """Return log-probabilities, entropies and, from TRL, further values, as TRL's function does."""
        # also without gradients, so that a policy and its reference are computed alike
        trains = weight.requires_grad or (bias is not None and bias.requires_grad)
        if (
            hidden.device.type != "cpu"
            or trains
            or softcap is not None
            or not {"log_probs", "entropy"}.issuperset(outputs)
        ):
            return _OF_TRL.apply(hidden, weight, bias, targets, temperature, chunk_size, softcap, logit_scale, outputs)
        log_probs, entropies = FrozenHead.apply(hidden, weight, bias, targets, logit_scale / temperature)
        return log_probs, entropies if "entropy" in outputs else None, None, None, None


def frozen_head_bytes(tokens: int, vocabulary: int) -> int:
    """Return the memory of the logits of FrozenHead, in bytes: as computed, in float32, and their exponentials."""
    return min(tokens, _ROWS) * vocabulary * (4 + 4 + 4)


@contextmanager
def frozen_head() -> Iterator[None]:
    """Make TRL's fused head, inside the block, use FrozenHead where it can."""
    utils._ChunkedLogProbFunction = _Head
    try:
        yield
    finally:
        utils._ChunkedLogProbFunction = _OF_TRL


def _chunks(count: int) -> Iterator[slice]:
    return (slice(start, start + _ROWS) for start in range(0, count, _ROWS))
