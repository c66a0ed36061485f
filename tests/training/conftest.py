"""Fixtures of the tests of training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from staged_runs import pressing, run

from agentgym.policy import make_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(["what is in the box"] * 20, vocab_size=300)


@pytest.fixture(scope="session")
def even(tmp_path_factory) -> Path:
    """A run that has imitated both players: at most half of its episodes press the right button.

    Tests that are marked `together` as its users share it.
    """
    folder = tmp_path_factory.mktemp("even") / "run"
    options = {"steps": 320, "demonstrations": 64, "imperfect_oracle": 0.5, "validate_every": 1000}
    run(pressing({"kind": "imitate", "options": options}), folder)
    return folder


@pytest.fixture
def logits() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True)
