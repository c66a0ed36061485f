"""Value-guided decoding: samples follow the tilted law, and their log-probabilities are those of that law."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
import torch
from row_sources import decode

from agentgym.errors import PolicyError
from agentgym.methods.token_values.guided import GuidedTurn
from agentgym.methods.token_values.networks import AdvantageHead, OutcomeHead, Scaled, load_values, save_values
from agentgym.policy.contract import Sampling
from agentgym.policy.decode_request import DecodeRequest
from agentgym.policy.decoding import Decoder
from agentgym.policy.scoring import score
from agentgym.policy.tiny import make_model, make_tokenizer

PREFIX, LENGTH, ETA = [5, 6, 7], 2, 0.3


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(["a b c"] * 20, vocab_size=300)


@pytest.fixture(scope="module")
def model(tokenizer):
    return make_model(tokenizer, seed=0, hidden=32, layers=2, heads=2, kv_heads=1).eval()


def reward(tokens: Sequence[int]) -> float:
    """Of a turn of two tokens: 1 if their sum is divisible by 5."""
    return float(sum(tokens) % 5 == 0)


class ExactHead:
    """The exact log E exp(reward / eta) after each token, under the model itself."""

    def __init__(self, model, vocabulary: int) -> None:
        rows = torch.tensor([[*PREFIX, token] for token in range(vocabulary)])
        with torch.no_grad():
            following = torch.softmax(model(rows).logits[:, -1].double(), dim=-1)
        paid = torch.tensor([[reward(pair) for pair in product([a], range(vocabulary))] for a in range(vocabulary)])
        self._before_last = torch.log((following * torch.exp(paid / ETA)).sum(-1))

    def gains(self, ids: Sequence[int], candidates: Sequence[int]) -> torch.Tensor:
        tokens = list(ids)[len(PREFIX) :]
        if not tokens:
            return self._before_last[list(candidates)]
        return torch.tensor([reward([*tokens, candidate]) / ETA for candidate in candidates])


def sample(model, count: int, turn_of) -> list[DecodeRequest]:
    rows = []
    for seed in range(count):
        hook = turn_of()
        rows.append(DecodeRequest(PREFIX, Sampling(seed=seed), limit=LENGTH, hook=hook, tilt=hook.tilt))
    decode(Decoder(model, 0, ()), rows)
    return rows


def test_with_an_exact_head_samples_follow_exactly_the_tilted_law(model):
    """pi(y) exp(r(y) / eta), normalised: of classes of the two tokens, by a chi-square test of 3,000 samples."""
    vocabulary = model.config.vocab_size
    head = ExactHead(model, vocabulary)
    rows = sample(model, 3000, lambda: GuidedTurn(head, PREFIX))
    with torch.no_grad():
        first = torch.softmax(model(torch.tensor([PREFIX])).logits[0, -1].double(), dim=-1)
        all_rows = torch.tensor([[*PREFIX, token] for token in range(vocabulary)])
        second = torch.softmax(model(all_rows).logits[:, -1].double(), dim=-1)
    law = (first[:, None] * second).numpy()
    paid = (np.add.outer(np.arange(vocabulary), np.arange(vocabulary)) % 5 == 0).astype(float)
    law *= np.exp(paid / ETA)
    law /= law.sum()
    classes = np.add.outer(4 * (np.arange(vocabulary) % 3), np.zeros(vocabulary, int))
    classes = classes + np.where(paid == 1, 0, 1 + np.arange(vocabulary)[None] % 3)
    expected = np.bincount(classes.ravel().astype(int), law.ravel(), 12) * len(rows)
    seen = Counter(int(classes[tuple(row.tokens)]) for row in rows)
    observed = np.array([seen[number] for number in range(12)])
    statistic = ((observed - expected) ** 2 / expected).sum()
    assert statistic < 31.3, "the 0.1 % point of chi-square with 11 degrees of freedom"
    for row in rows[:50]:
        assert sum(row.logprobs) == pytest.approx(np.log(law[tuple(row.tokens)]), abs=1e-5)
        assert row.masks == []
    plain = first.numpy() @ (second.numpy() * paid).sum(1)
    assert observed[[0, 4, 8]].sum() / len(rows) > 3 * plain, "the head matters"


def test_with_scale_zero_nothing_changes_but_that_only_the_candidates_are_sampled(model):
    network = AdvantageHead(model.base_model, 32, model.config.vocab_size)
    likeliest = {len(PREFIX): model(torch.tensor([PREFIX])).logits[0, -1].topk(4).indices.tolist()}
    rows = sample(model, 40, lambda: GuidedTurn(Scaled(network, 0.0), PREFIX, 4))
    assert {row.tokens[0] for row in rows} <= set(likeliest[len(PREFIX)])
    rows = sample(model, 10, lambda: GuidedTurn(Scaled(network, 0.0), PREFIX))
    given = list(score(model, 0, [(PREFIX, row.tokens) for row in rows]))
    np.testing.assert_allclose([row.logprobs for row in rows], given, atol=1e-6)


@pytest.mark.parametrize("kind", [AdvantageHead, OutcomeHead])
def test_values_are_read_as_they_were_written_and_not_for_other_tokens(model, tokenizer, tmp_path, kind):
    options = (model.config.vocab_size,) if kind is AdvantageHead else (0.0, 1.0, 3)
    network = kind(model.base_model, 32, *options)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.01 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    model.save_pretrained(tmp_path)
    save_values(network.eval(), tokenizer, tmp_path)
    read = load_values(tmp_path, tokenizer, "cpu")
    torch.testing.assert_close(read.gains(PREFIX, [1, 2, 3], 2.0), network.gains(PREFIX, [1, 2, 3], 2.0))
    other = make_tokenizer(["what is in the box"] * 20, vocab_size=300)
    with pytest.raises(PolicyError, match="another model's tokenizer"):
        load_values(tmp_path, other, "cpu")
    with pytest.raises(PolicyError, match="contains no token values"):
        load_values(tmp_path / "none", tokenizer, "cpu")


def test_wrong_options_are_named(model):
    with pytest.raises(PolicyError, match="scale = -1"):
        Scaled(AdvantageHead(model.base_model, 32, 300), -1.0)
    with pytest.raises(PolicyError, match="candidates = 0"):
        GuidedTurn(Scaled(AdvantageHead(model.base_model, 32, 300), 1.0), PREFIX, 0)
