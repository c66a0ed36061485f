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
from transformers import Gemma2Config, Gemma2ForCausalLM
from vision_models import qwen2_vl

from agentgym.credit import estimator
from agentgym.policy import make_model
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


@given(sequences)
def test_every_token_is_found_after_the_tokens_before_it(rows):
    shared = SharedPrefixes([np.array(row) for row in rows])
    widths = [max(map(len, part), default=0) for part in (shared.prefixes, shared.endings)]
    table: list[tuple[int, ...]] = []  # of each state: the token with all before it
    for prefix in shared.prefixes:
        table += [tuple(prefix[: end + 1]) for end in range(widths[0])]
    for number, ending in enumerate(shared.endings):
        before = shared.prefixes[shared.prefix_of[number]][: shared.starts[number]] if shared.starts[number] else []
        table += [(*before, *ending[: end + 1]) for end in range(widths[1])]
    for number, row in enumerate(rows):
        indices = shared.places(np.full(len(row), number), np.arange(len(row)))
        assert [table[index] for index in indices] == [tuple(row[: end + 1]) for end in range(len(row))]
    assert all(len(ending) > 0 for ending in shared.endings)


def test_a_prompt_is_computed_once_and_what_another_row_begins_with_not_at_all():
    prompt, other = np.arange(100), np.arange(200, 280)
    rows = [
        np.array([*prompt, 1, 2]),
        np.array([*prompt, 1, 2, 3, 4]),  # goes on from the first
        np.array([*prompt, 5]),
        np.array([*other, 6]),
        np.array([*other, 7, 8]),
        np.array([*other, 7, 8]),
        np.array([300] * 50),  # alone: divided, so that the endings are padded to 4 tokens
    ]
    shared = SharedPrefixes(rows)
    assert sorted(map(len, shared.prefixes)) == [46, 80, 100]
    assert sorted(map(len, shared.endings)) == [1, 1, 2, 4, 4]
    assert shared.size == 3 * 100 + 5 * 4


def batch(rows: list[list[int]], side: str) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, rows)) + 1
    spaces = [[0] * (width - len(row)) for row in rows]
    pairs = list(zip(rows, spaces, strict=True))
    filled = [[*space, *row] if side == "left" else [*row, *space] for row, space in pairs]
    masks = [[0] * len(s) + [1] * len(r) if side == "left" else [1] * len(r) + [0] * len(s) for r, s in pairs]
    return torch.tensor(filled), torch.tensor(masks)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_last_hidden_states_are_those_of_each_sequence_alone(tokenizer, monkeypatch, side, attention):
    monkeypatch.setattr(shared_prefixes, "MIN_SAVED", 0)
    model = make_model(tokenizer, hidden=32, layers=2, heads=4, kv_heads=2).eval()
    model.set_attn_implementation(attention)
    prompt, other = list(range(3, 40)), list(range(50, 80))
    rows = [[*prompt, 5], [*prompt, 6, 7, 8], [*prompt, 6], [*other, 9, 4, 4], [*other, 9, 5], [90] * 25, [91]]
    ids, mask = batch(rows, side)
    with torch.no_grad(), computed_tokens(model) as counts, prefixes_shared(model):
        states = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        assert len(counts) == 2
        assert sum(counts) < ids.numel() * 0.7
    assert states.shape == (*ids.shape, 32)
    with torch.no_grad():
        for number, row in enumerate(rows):
            alone = model.base_model(input_ids=torch.tensor([row]), use_cache=False).last_hidden_state[0]
            torch.testing.assert_close(states[number][mask[number] == 1], alone, rtol=1e-5, atol=1e-5)
        after = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    assert "forward" not in vars(model.base_model)
    torch.testing.assert_close(after[mask == 1], states[mask == 1], rtol=1e-5, atol=1e-5)


def test_little_in_common_is_not_worth_a_second_pass(tokenizer):
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
    assert sum(counts) < 0.75 * sum(all_counts)
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
    assert counts == [57, 4]
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
    assert "machine.gradient_checkpointing" in str(why_unshared(checkpointed))
    assert why_unshared(dropping.eval()) is None
    assert why_unshared(checkpointed.eval()) is None
