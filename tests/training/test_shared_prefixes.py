"""What rows begin with in common is computed once, and no state, loss or gradient is another for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from credit_reference import ESTIMATORS
from gradient_reference import GradientReference
from gradient_runs import KL, MAX_LENGTH, ROWS, TEMPERATURE, Given, Weights, model_of, trainer_of, words
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    MptConfig,
    MptForCausalLM,
)
from vision_models import qwen2_vl

from agentgym.credit import estimator
from agentgym.policy import make_model
from agentgym.policy.grouped_attention import GROUPED
from agentgym.policy.role_adapters import RoleAdapters
from agentgym.training.loss import shared_prefixes
from agentgym.training.loss.scored_rows import ScoredRow, scores_of, scoring_head
from agentgym.training.loss.shared_prefixes import SharedPrefixes, prefixes_shared, why_unshared

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")

sequences = st.lists(st.lists(st.integers(1, 2), min_size=1, max_size=12), min_size=1, max_size=8)


@contextmanager
def computed_tokens(model: Any) -> Iterator[list[int]]:
    """Count the tokens, with padding, of each forward pass of a model's layers."""
    counts: list[int] = []
    embedding = model.get_input_embeddings()
    handle = embedding.register_forward_hook(lambda _, inputs, __: counts.append(inputs[0].numel()))
    try:
        yield counts
    finally:
        handle.remove()


@pytest.mark.parametrize("keys_of_a_token", [1, 10, 4096])
@given(rows=sequences)
def test_every_token_attends_to_the_tokens_that_lead_to_it(keys_of_a_token, rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_prefixes, "_KEYS_OF_A_TOKEN", keys_of_a_token)  # the less, the more passes
        patch.setattr(shared_prefixes, "_COST_OF_A_PASS", 2)
        shared = SharedPrefixes([np.array(row) for row in rows])
    sequences: list[tuple[int, ...]] = []  # of each computed token: it, and all that it attends to
    for tokens, positions, mask in zip(shared.passes, shared.positions, shared.masks, strict=True):
        for number, position in enumerate(positions):
            before = sorted(np.flatnonzero(mask[number]), key=lambda other: positions[other])
            assert positions[before].tolist() == list(range(position + 1))
            sequences.append(tuple(tokens[before]))
    width = max(map(len, rows)) + 1
    for row, indices in zip(rows, shared.places(width), strict=True):
        assert [sequences[index] for index in indices[: len(row)]] == [tuple(row[: end + 1]) for end in range(len(row))]
    if keys_of_a_token == 4096:
        assert shared.size == len({tuple(row[: end + 1]) for row in rows for end in range(len(row))})


def test_a_long_prompt_is_computed_once_however_much_is_discarded():
    rows = [np.array([*range(5000), *[end] * 3000]) for end in (-1, -2, -3)]
    assert SharedPrefixes(rows).size == 5000 + 3 * 3000


def test_a_prompt_is_computed_once_and_what_another_row_begins_with_not_at_all():
    prompt, other = np.arange(100), np.arange(200, 280)
    rows = [
        np.array([*prompt, 1, 2]),
        np.array([*prompt, 1, 2, 3, 4]),  # goes on from the first
        np.array([*prompt, 5]),
        np.array([*other, 6]),
        np.array([*other, 7, 8]),
        np.array([*other, 7, 8]),
        np.array([300] * 50),
    ]
    shared = SharedPrefixes(rows)
    assert shared.size == (100 + 4 + 1) + (80 + 1 + 2) + 50
    assert len(shared.passes) == 1  # little is discarded


def test_large_trees_have_passes_of_their_own():
    """They share the system message, and would attend to each other in vain."""
    rows = [np.array([0, *range(start, start + 3000), end]) for start in (1, 3001) for end in (-1, -2)]
    shared = SharedPrefixes(rows)
    assert list(map(len, shared.passes)) == [3003, 3003]


def batch(rows: list[list[int]], side: str) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, rows)) + 1
    spaces = [[0] * (width - len(row)) for row in rows]
    pairs = list(zip(rows, spaces, strict=True))
    filled = [[*space, *row] if side == "left" else [*row, *space] for row, space in pairs]
    masks = [[0] * len(s) + [1] * len(r) if side == "left" else [1] * len(r) + [0] * len(s) for r, s in pairs]
    return torch.tensor(filled), torch.tensor(masks)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("attention", ["sdpa", "eager", GROUPED])
def test_the_last_hidden_states_are_those_of_each_sequence_alone(tokenizer, monkeypatch, side, attention):
    monkeypatch.setattr(shared_prefixes, "MIN_SAVED", 0)
    model = make_model(tokenizer, hidden=32, layers=2, heads=4, kv_heads=2).eval()
    model.set_attn_implementation(attention)
    prompt, other = list(range(3, 40)), list(range(50, 80))
    rows = [[*prompt, 5], [*prompt, 6, 7, 8], [*prompt, 6], [*other, 9, 4, 4], [*other, 9, 5], [90] * 25, [91]]
    ids, mask = batch(rows, side)
    with torch.no_grad(), computed_tokens(model) as counts, prefixes_shared(model):
        states = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        assert counts == [37 + 4 + 30 + 4 + 25 + 1]
    assert states.shape == (*ids.shape, 32)
    with torch.no_grad():
        for number, row in enumerate(rows):
            alone = model.base_model(input_ids=torch.tensor([row]), use_cache=False).last_hidden_state[0]
            torch.testing.assert_close(states[number][mask[number] == 1], alone, rtol=1e-5, atol=1e-5)
        after = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    assert "forward" not in vars(model.base_model)
    torch.testing.assert_close(after[mask == 1], states[mask == 1], rtol=1e-5, atol=1e-5)


def test_little_in_common_is_not_worth_a_tree(tokenizer):
    model = make_model(tokenizer, hidden=16, layers=1, heads=1, kv_heads=1).eval()
    ids, mask = batch([[3, 4, 5, 6], [3, 4, 7, 8]], "right")
    with torch.no_grad(), computed_tokens(model) as counts, prefixes_shared(model):
        model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
    assert counts == [ids.numel()]


# Gradients

SHARED = (40, 25)
"""The tokens of the prompts of two groups, of which the second is the beginning of the first."""


def distance(actual: Weights, expected: Weights) -> float:
    """The largest difference, as a share of the largest entry."""
    scale = max(float(value.abs().max()) for value in expected.values())
    assert scale > 1e-6
    return max(float((actual[name] - value).abs().max()) for name, value in expected.items()) / scale


def reference_of(model: Any, rollouts: Given, other: Any) -> GradientReference:
    return GradientReference(model, rollouts.groups, experts=rollouts.experts, temperature=TEMPERATURE, reference=other)


@pytest.mark.parametrize("microbatch_tokens", [100, 10_000])
@pytest.mark.parametrize(
    ("objective", "lora"),
    [("dr_grpo", False), ("dapo", True), ("reinforce", False), ("gspo", True), ("grao", False), ("pacs", False)],
)
def test_the_gradient_is_that_of_the_formulas(tmp_path, monkeypatch, objective, lora, microbatch_tokens):
    """In parts and whole, with a KL to a reference, further rows, failed and truncated episodes, and an adapter."""
    monkeypatch.setattr(shared_prefixes, "MIN_SAVED", 0)
    tokenizer = words()
    model, other = model_of(tokenizer, lora=lora), model_of(tokenizer, seed=7)
    other.save_pretrained(tmp_path / "reference")
    rollouts = Given(model, len(tokenizer), SHARED)
    reference = reference_of(model, rollouts, model.get_base_model() if lora else other)
    trainer = trainer_of(
        tokenizer, tmp_path, objective, model=model, rollouts=rollouts, microbatch_tokens=microbatch_tokens
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    text, estimate = next(iter(ESTIMATORS.items()))
    trainer._estimator = estimator(text)
    rows = trainer._generate_and_score_completions(ROWS)
    parts = trainer._parts_of(rows)
    assert len(parts) > 1 if microbatch_tokens == 100 else len(parts) == 1
    with computed_tokens(trainer.model) as counts:
        shared = gradients_of(trainer, rows)
    monkeypatch.setattr(shared_prefixes, "MIN_SAVED", 10**9)
    with computed_tokens(trainer.model) as all_counts:
        gradients_of(trainer, rows)
    assert sum(counts) < 0.6 * sum(all_counts)
    expected = reference.gradient(objective, estimate, max_length=MAX_LENGTH, kl=KL)
    assert distance(shared, expected) < 1e-5


def gradients_of(trainer: Any, rows: dict[str, Any]) -> Weights:
    trainer.model.zero_grad()
    trainer.accelerator.backward(trainer.compute_loss(trainer.model, dict(rows)))
    return {name: value.grad.clone() for name, value in trainer.model.named_parameters() if value.grad is not None}


def test_rows_that_are_scored_by_themselves_share_too(tokenizer, monkeypatch):
    """Such as the two replies of a preference."""
    monkeypatch.setattr(shared_prefixes, "MIN_SAVED", 0)
    model = make_model(tokenizer, hidden=16, layers=1, heads=1, kv_heads=1)
    prompt = list(range(3, 60))
    rows = [
        ScoredRow(np.array([*prompt, *end]), np.array([0] * 57 + [1] * len(end), np.float32)) for end in ([5, 6], [7])
    ]
    with scoring_head(model), torch.no_grad():
        alone = [float(scores_of(model, [row])[0]) for row in rows]
        with computed_tokens(model) as counts:
            together = scores_of(model, rows).tolist()
    assert counts == [57 + 2 + 1]
    assert together == pytest.approx(alone, rel=1e-5)


# What cannot be shared


def sliding() -> Any:
    sizes = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, head_dim=8)
    return Gemma2ForCausalLM(Gemma2Config(vocab_size=50, num_key_value_heads=1, sliding_window=8, **sizes))


def adapted(model: Any, dropout: float = 0.0) -> Any:
    return get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"], lora_dropout=dropout))


def test_a_model_says_why_it_shares_nothing(tokenizer):
    def tiny() -> Any:
        return make_model(tokenizer, hidden=16, layers=1, heads=1, kv_heads=1)

    assert why_unshared(tiny()) is None
    assert why_unshared(adapted(tiny())) is None
    assert "images" in str(why_unshared(qwen2_vl()[1]))
    assert "keys and values of all tokens" in str(why_unshared(sliding()))
    of_roles = adapted(tiny())
    RoleAdapters(["planner", "executor"]).attach(of_roles)
    assert "role" in str(why_unshared(of_roles))
    dropping, checkpointed = adapted(tiny(), dropout=0.5).train(), tiny().train()
    checkpointed.activation_checkpointing_enable()
    assert "dropout" in str(why_unshared(dropping))
    assert why_unshared(checkpointed) is None
    assert why_unshared(dropping.eval()) is None
    flash = tiny()
    flash.config._attn_implementation = "flash_attention_2"
    assert "flash_attention_2" in str(why_unshared(flash))
    local = GPTNeoConfig(
        vocab_size=50, hidden_size=16, num_layers=2, num_heads=2, attention_types=[[["global", "local"], 1]]
    )
    assert "nearest" in str(why_unshared(GPTNeoForCausalLM(local)))
    assert "positions" in str(why_unshared(MptForCausalLM(MptConfig(d_model=16, n_heads=2, n_layers=1, vocab_size=50))))
