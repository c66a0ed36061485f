"""An output layer that is not trained scores tokens as TRL's fused head does, and has its gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from trl.trainer import utils

from agentgym.training.loss.frozen_head import FrozenHead, frozen_head

OF_TRL = utils._ChunkedLogProbFunction
TOKENS, SIZE, VOCABULARY = 600, 16, 50  # more tokens than are computed at once


def scores(
    weights: tuple[float, float], *, bias: bool = True, trains: bool = False, softcap: float | None = None
) -> tuple[list[torch.Tensor], Any]:
    """Return log-probabilities, entropies and the gradient of their weighted sum; and what computed them."""
    torch.manual_seed(0)
    hidden = torch.randn(TOKENS, SIZE, requires_grad=True)
    weight = torch.randn(VOCABULARY, SIZE, requires_grad=trains)
    offsets, targets = torch.randn(VOCABULARY) if bias else None, torch.randint(0, VOCABULARY, (TOKENS,))
    both = utils._ChunkedLogProbFunction.apply(
        hidden, weight, offsets, targets, 0.7, 16, softcap, 1.5, ("log_probs", "entropy")
    )[:2]
    of_tokens = torch.rand(TOKENS)
    loss = sum(factor * (of_tokens * each).sum() for factor, each in zip(weights, both, strict=True) if factor)
    loss.backward()
    return [*(each.detach() for each in both), hidden.grad], type(both[0].grad_fn).__name__


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0), (1.0, -0.3)])
def test_scores_and_gradients_are_those_of_trl(weights, bias):
    expected, _ = scores(weights, bias=bias)
    with frozen_head():
        actual, computed_by = scores(weights, bias=bias)
    assert computed_by == f"{FrozenHead.__name__}Backward"
    for computed, of_trl in zip(actual, expected, strict=True):
        torch.testing.assert_close(computed, of_trl, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("other", [{"trains": True}, {"softcap": 20.0}])
def test_trl_computes_everything_else(other):
    expected, computed_by = scores((1.0, 0.0), **other)
    with frozen_head():
        actual = scores((1.0, 0.0), **other)
    assert actual[1] == computed_by
    assert all(torch.equal(*pair) for pair in zip(actual[0], expected, strict=True))


def test_in_bfloat16_a_token_of_which_the_model_is_almost_sure_has_its_small_gradient():
    """Its probability, 0.9991, would be rounded to 1."""
    hidden = torch.full((1, 1), 7.0, requires_grad=True)
    weight, target = torch.tensor([[1.0], [0.0]]), torch.tensor([0])
    with torch.autocast("cpu", torch.bfloat16):
        log_probs, _ = FrozenHead.apply(hidden, weight, None, target, 1.0)
    log_probs.sum().backward()
    assert float(hidden.grad) == pytest.approx(1 - torch.sigmoid(torch.tensor(7.0)).item(), rel=0.01)


def test_the_function_of_trl_stands_after_the_block():
    with pytest.raises(RuntimeError), frozen_head():
        raise RuntimeError
    assert utils._ChunkedLogProbFunction is OF_TRL
