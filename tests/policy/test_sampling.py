"""Drawing a token: the distribution is the model's, and the log-probability is of that distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentgym.policy import Sampling
from agentgym.policy.sampling import draw, truncate, uniforms

PROBABILITIES = [0.5, 0.3, 0.15, 0.05]


def drawn(uniform: list[float], temperature: float = 1.0, top_p: float = 1.0, probabilities=PROBABILITIES):
    count = len(uniform)
    logits = torch.tensor([probabilities]).log().repeat(count, 1)
    columns = (torch.full((count,), value, dtype=torch.float64) for value in (temperature, top_p))
    tokens, logprobs = draw(logits, torch.tensor(uniform, dtype=torch.float64), *columns)
    return tokens.tolist(), logprobs.tolist()


def test_a_number_falls_into_the_interval_of_its_token():
    """Cumulative: 0.5, 0.8, 0.95, 1."""
    tokens, logprobs = drawn([0.0, 0.49, 0.51, 0.79, 0.81, 0.94, 0.96, 0.9999999])
    assert tokens == [0, 0, 1, 1, 2, 2, 3, 3]
    assert logprobs == pytest.approx([math.log(PROBABILITIES[token]) for token in tokens], abs=1e-6)


def test_temperature_squares_the_odds_at_one_half():
    """p^2: 0.25, 0.09, 0.0225, 0.0025, sum 0.365."""
    tokens, logprobs = drawn([0.25 / 0.365 - 0.001, 0.25 / 0.365 + 0.001], temperature=0.5)
    assert tokens == [0, 1]
    assert logprobs == pytest.approx([math.log(0.25 / 0.365), math.log(0.09 / 0.365)], abs=1e-6)


def test_top_p_keeps_the_smallest_set_that_holds_enough_and_normalises_it():
    """0.5 + 0.3 reach 0.7, so two tokens stay, with 5/8 and 3/8."""
    tokens, logprobs = drawn([0.62, 0.63, 0.999], top_p=0.7)
    assert tokens == [0, 1, 1]
    assert logprobs == pytest.approx([math.log(5 / 8), math.log(3 / 8), math.log(3 / 8)], abs=1e-6)


def test_a_tiny_top_p_leaves_the_likeliest_token():
    assert drawn([0.0, 0.5, 0.999], top_p=1e-9) == ([0, 0, 0], pytest.approx([0.0] * 3))


def test_temperature_zero_reports_the_probability_at_temperature_one():
    tokens, logprobs = drawn([0.0, 0.999], temperature=0.0, top_p=0.1)
    assert tokens == [0, 0]
    assert logprobs == pytest.approx([math.log(0.5)] * 2, abs=1e-6)


@given(st.floats(0, 1, exclude_max=True), st.lists(st.floats(-30, 30), min_size=2, max_size=20))
def test_a_token_without_probability_is_never_drawn(uniform, scores):
    logits = torch.tensor([[-math.inf, *scores, -math.inf]])
    unit = torch.ones(1, dtype=torch.float64)
    token, logprob = draw(logits, torch.tensor([uniform], dtype=torch.float64), unit, unit)
    assert 0 < int(token) <= len(scores)
    assert math.isfinite(float(logprob))


def test_frequencies_match_the_distribution():
    """40,000 draws; the standard error of a share is at most 0.0025."""
    tokens, _ = drawn(uniforms(Sampling(seed=1), 40_000).tolist())
    shares = np.bincount(tokens, minlength=4) / 40_000
    assert shares == pytest.approx(PROBABILITIES, abs=0.0125)


def test_noise_depends_on_the_seed_alone():
    assert uniforms(Sampling(seed=7), 5).tolist() == uniforms(Sampling(seed=7, temperature=0.3), 9)[:5].tolist()
    assert uniforms(Sampling(seed=7), 5).tolist() != uniforms(Sampling(seed=8), 5).tolist()
    assert uniforms(Sampling(), 5).tolist() != uniforms(Sampling(), 5).tolist()


@pytest.mark.parametrize("vocabulary", [5, 128, 129, 3000])
@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_a_number_picks_the_token_of_the_whole_cumulative_sum(vocabulary, top_p):
    """Though only one block of tokens is summed one by one."""
    generator = torch.Generator().manual_seed(vocabulary)
    logits = 3 * torch.randn(400, vocabulary, generator=generator)
    logits[::3, 1 : vocabulary // 2] = -math.inf
    uniform = torch.rand(400, dtype=torch.float64, generator=generator)
    temperature = torch.full((400,), 0.7, dtype=torch.float64)
    tokens, logprobs = draw(logits, uniform, temperature, torch.full_like(temperature, top_p))
    expected = torch.log_softmax(logits.double() / 0.7, -1)
    if top_p < 1:
        expected = truncate(expected, torch.full_like(temperature, top_p))
    mass = expected.exp().cumsum(-1)
    assert torch.equal(tokens, torch.searchsorted(mass, (uniform * mass[:, -1])[:, None], right=True)[:, 0])
    torch.testing.assert_close(logprobs, expected.gather(1, tokens[:, None])[:, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("vocabulary", [2, 128, 300])
@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2.0**-53])
def test_the_only_possible_token_is_drawn_at_every_number(vocabulary, uniform):
    for token in {0, vocabulary // 2, vocabulary - 1}:
        logits = torch.full((1, vocabulary), -math.inf)
        logits[0, token] = 2.0
        unit = torch.ones(1, dtype=torch.float64)
        drawn_token, logprob = draw(logits, unit * uniform, unit, unit)
        assert int(drawn_token) == token
        assert float(logprob) == 0.0


def test_a_model_that_diverged_is_not_hidden():
    unit = torch.ones(1, dtype=torch.float64)
    _, logprob = draw(torch.tensor([[1.0, math.nan, 2.0]]), 0.5 * unit, unit, unit)
    assert math.isnan(float(logprob))
