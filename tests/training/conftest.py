"""Fixtures of the tests of training."""

from __future__ import annotations

import pytest
import torch

from agentgym.policy import make_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(["what is in the box"] * 20, vocab_size=300)


@pytest.fixture
def logits() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True)
