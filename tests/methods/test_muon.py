"""Muon: matrices of hidden layers are updated along orthogonal directions, everything else exactly as AdamW does."""

from __future__ import annotations

import copy

import pytest
import torch

from agentgym.methods.muon import Muon, orthogonal
from agentgym.policy.tiny import make_model, make_tokenizer


@pytest.fixture(scope="module")
def model():
    tokenizer = make_tokenizer(["a text to make a tokenizer of"] * 3, vocab_size=280)
    return make_model(tokenizer, seed=0, hidden=32, layers=2)


def batch(seed=0):
    return torch.randint(0, 256, (4, 12), generator=torch.Generator().manual_seed(seed))


def backward(model, seed=0):
    model.zero_grad()
    model(input_ids=batch(seed), labels=batch(seed)).loss.backward()


@pytest.mark.parametrize("shape", [(16, 16), (48, 16), (16, 48)])
def test_singular_values_are_brought_near_one(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 1e-3
    values = torch.linalg.svdvals(orthogonal(matrix))
    assert values.min() > 0.5
    assert values.max() < 1.3
    assert torch.equal(orthogonal(torch.zeros(shape)), torch.zeros(shape))


def test_what_is_no_hidden_matrix_is_updated_as_adamw_does(model):
    mine, reference = copy.deepcopy(model), copy.deepcopy(model)
    muon = Muon(mine, learning_rate=1e-2)
    adamw = torch.optim.AdamW(reference.parameters(), lr=1e-2, betas=(0.9, 0.98), weight_decay=0.0)
    backward(mine)
    backward(reference)
    muon.step()
    adamw.step()
    hidden = {id(parameter) for parameter in muon.param_groups[0]["params"]}
    for (name, parameter), expected in zip(mine.named_parameters(), reference.parameters(), strict=True):
        assert torch.equal(parameter, expected) == (id(parameter) not in hidden), name
        assert (id(parameter) in hidden) == (parameter.ndim == 2 and "embed" not in name and "lm_head" not in name)
    assert all(parameter.grad is not None for parameter in mine.parameters())


def test_its_state_can_be_saved_and_loaded(model):
    mine = copy.deepcopy(model)
    muon = Muon(mine, learning_rate=1e-2)
    backward(mine)
    muon.step()
    loaded = copy.deepcopy(mine)
    resumed = Muon(loaded, learning_rate=1e-2)
    resumed.load_state_dict(copy.deepcopy(muon.state_dict()))
    for trained, optimizer in ((mine, muon), (loaded, resumed)):
        backward(trained, seed=1)
        optimizer.step()
    assert all(torch.equal(*pair) for pair in zip(mine.parameters(), loaded.parameters(), strict=True))


def test_an_update_has_the_size_of_adamws_first(model):
    """So that one learning rate serves both: AdamW's first update changes every weight by the rate."""
    mine = copy.deepcopy(model)
    before = [parameter.detach().clone() for parameter in mine.parameters()]
    muon = Muon(mine, learning_rate=1e-2)
    backward(mine)
    muon.step()
    hidden = {id(parameter) for parameter in muon.param_groups[0]["params"]}
    for parameter, old in zip(mine.parameters(), before, strict=True):
        if id(parameter) in hidden:
            assert 0.1e-2 < (parameter - old).square().mean().sqrt() < 0.4e-2  # 0.2 to 0.3 of the rate in practice
