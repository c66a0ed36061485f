"""A batch that is computed in parts has the gradient of the whole, and the output layer sees labelled tokens alone."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_trainers import gradients, rows, trainer_of
from transformers import Gemma2Config, Gemma2ForCausalLM
from trl.trainer.utils import add_fused_lm_head

from agentgym.training.loss.grpo_batches import of_the_batch, trimmed
from agentgym.training.loss.labelled_head import own_forward_restored, project_labelled_only
from agentgym.training.loss.microbatches import RowSizes, parts_alike, parts_of, slices_of

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")

lengths_of_rows = st.integers(1, 3).flatmap(
    lambda segments: st.lists(st.lists(st.integers(1, 50), min_size=segments, max_size=segments), min_size=1)
)


@given(lengths_of_rows, st.integers(1, 400))
def test_parts_hold_every_row_once_within_the_budget(lengths, budget):
    lengths = np.array(lengths)
    parts = parts_of(RowSizes.unshared(lengths), budget)
    assert sorted(row for part in parts for row in part) == list(range(len(lengths)))
    for part in parts:
        assert len(part) == 1 or lengths[part].max(axis=0).sum() * len(part) <= budget


@given(lengths_of_rows, st.integers(1, 400), st.randoms(use_true_random=False))
def test_parts_have_as_many_rows_in_every_process(lengths, budget, random):
    """TRL gathers a number for each row of a part."""
    processes = [np.array(random.sample(lengths, len(lengths))), np.array(lengths)]
    processes.append(processes[1] * random.randint(1, 9))
    sizes = [RowSizes.unshared(rows) for rows in processes]
    shared_out = [parts_alike(sizes, rank, budget) for rank in range(3)]
    for lengths_here, parts in zip(processes, shared_out, strict=True):
        assert sorted(row for part in parts for row in part) == list(range(len(lengths_here)))
        assert [len(part) for part in parts] == [len(part) for part in shared_out[0]]
        for part in parts:
            assert len(part) == 1 or lengths_here[part].max(axis=0).sum() * len(part) <= budget


def test_some_rows_of_a_batch_lose_the_columns_that_are_padding_in_them():
    """Prompts are padded on the left, completions on the right."""
    prompts, completions = [[0, 0, 1], [0, 2, 3], [4, 5, 6]], [[7, 0], [8, 0], [9, 9]]
    batch = {
        "prompt_ids": torch.tensor(prompts),
        "prompt_mask": (torch.tensor(prompts) > 0).long(),
        "completion_ids": torch.tensor(completions),
        "completion_mask": (torch.tensor(completions) > 0).long(),
        "advantages": torch.tensor([0.1, 0.2, 0.3]),
        "group_returns": torch.tensor([[1.0, 0.0]] * 3),  # as wide as the completions
        "images": ["a", "b", "c"],
        "num_items_in_batch": 4,
    }
    part = trimmed(batch, np.array([1, 0]))
    assert part["prompt_ids"].tolist() == [[2, 3], [0, 1]]
    assert part["prompt_mask"].tolist() == [[1, 1], [0, 1]]
    assert part["completion_ids"].tolist() == [[8], [7]]
    assert part["group_returns"].shape == (2, 2)
    assert part["advantages"].tolist() == pytest.approx([0.2, 0.1])
    assert (part["images"], part["num_items_in_batch"]) == (["b", "a"], 4)


def test_rows_of_like_length_stand_together():
    parts = parts_of(RowSizes.unshared(np.array([[10], [90], [11], [88]])), 180)
    assert [sorted(part) for part in parts] == [[1, 3], [0, 2]]


def test_little_is_padding_and_parts_are_few():
    lengths = np.random.default_rng(0).lognormal(6.0, 0.5, size=(64, 1)).astype(int)
    parts = parts_of(RowSizes.unshared(lengths), 16_384)
    padded = sum(lengths[part].max() * len(part) for part in parts)
    assert lengths.sum() > 0.9 * padded
    assert len(parts) <= 8
    assert len(parts_of(RowSizes.unshared(lengths // 100), 16_384)) == 1  # as little as this is computed at once


def grouped(group: int, count: int, prompt: int, own: int) -> RowSizes:
    """Groups of rows with one prompt each, shuffled: the rows of a group stand apart."""
    order = np.random.default_rng(0).permutation(group * count)
    lengths = np.array([[prompt, own + 10 * (row % group) + row // group] for row in range(group * count)])
    return RowSizes(lengths[order], (np.arange(group * count) // group)[order])


def test_rows_that_share_a_long_prompt_stand_together():
    sizes = grouped(group=4, count=3, prompt=400, own=100)
    parts = parts_of(sizes, 1000)  # a group is computed as 400 + 4 x 117 tokens at most, and two as 1,600 or more
    assert [sorted(set(sizes.prompts[part])) for part in parts] == [[2], [1], [0]]
    assert all(len(part) == 4 for part in parts)


def test_a_shared_prompt_counts_once_and_nothing_is_padded():
    sizes = RowSizes(np.array([[800, 100], [800, 20], [800, 10]]), np.zeros(3, int))
    assert sizes.tokens().tolist() == [900, 920, 930]
    assert len(parts_of(sizes, 930)) == 1
    assert len(parts_of(sizes, 929)) == 2
    assert RowSizes.unshared(sizes.lengths).tokens().tolist() == [900, 1800, 2700]


def test_prompts_are_the_same_only_with_the_same_tokens():
    ids = torch.tensor([[0, 5, 6], [0, 5, 6], [5, 6, 0], [7, 5, 6], [0, 0, 6]])
    mask = torch.tensor([[0, 1, 1], [0, 1, 1], [1, 1, 1], [1, 1, 1], [0, 1, 1]])
    sizes = RowSizes.of({"prompt_ids": ids, "prompt_mask": mask, "completion_mask": torch.ones(5, 2)})
    assert len(set(sizes.prompts)) == 4
    assert sizes.prompts[0] == sizes.prompts[1]
    assert sizes.lengths.tolist() == [[2, 2], [2, 2], [3, 2], [3, 2], [2, 2]]


def test_slices_keep_the_order_of_the_rows():
    sizes = RowSizes(np.array([[100, 10]] * 6), np.array([0, 0, 0, 1, 1, 1]))
    assert slices_of([sizes], 170) == [slice(0, 3), slice(3, 6)]
    assert slices_of([RowSizes.unshared(sizes.lengths)], 220) == [slice(0, 2), slice(2, 4), slice(4, 6)]


@pytest.mark.parametrize("loss_type", ["dr_grpo", "bnpo", "dapo"])
def test_parts_of_a_batch_have_the_loss_and_the_gradient_of_the_batch(tokenizer, tmp_path, loss_type):
    trainer = trainer_of(tokenizer, tmp_path, loss_type=loss_type)
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    at_once = gradients(trainer, batch)
    assert len(trainer._parts_of(batch)) == 1
    trainer._microbatch_tokens = 40
    assert len(trainer._parts_of(batch)) > 2
    in_parts = gradients(trainer, batch)
    assert sum(float(value.abs().sum()) for value in at_once.values()) > 0
    for name, value in at_once.items():
        torch.testing.assert_close(in_parts[name], value, rtol=1e-4, atol=1e-7)
    for name in ("guard/drift", "entropy"):
        assert len(values := trainer._metrics["train"][name]) == 2
        assert values[0] == pytest.approx(values[1], rel=1e-5), name


def test_a_metric_of_parts_is_weighted_by_their_own_tokens():
    counts = np.array([30, 10, 0])
    assert of_the_batch("entropy", [1.0, 2.0, np.nan], counts) == [1.25]
    assert of_the_batch("clip_ratio/low_min", [1.0, 0.5, np.nan], counts) == [0.5]
    assert of_the_batch("clip_ratio/high_max", [1.0, 0.5, np.nan], counts) == [1.0]
    assert of_the_batch("entropy", [1.0], np.array([0])) == [1.0]
    assert of_the_batch("reward", [], counts) == []


def test_the_output_layer_is_asked_for_the_agents_own_tokens_alone(tokenizer, tmp_path, monkeypatch):
    trainer = trainer_of(tokenizer, tmp_path)
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    projected = []
    forward = trainer.model.forward
    monkeypatch.setattr(
        trainer.model,
        "forward",
        lambda *args, labels, **options: (
            projected.append(int((labels != -100).sum())) or forward(*args, labels=labels, **options)
        ),
    )
    trainer.compute_loss(trainer.model, dict(batch))
    assert projected == [int((batch["completion_mask"] * batch["tool_mask"]).sum())]
    assert projected[0] < int(batch["completion_mask"].sum())


@pytest.fixture
def capped() -> Gemma2ForCausalLM:
    """A model whose logits are not just the output of its last layer."""
    torch.manual_seed(0)
    sizes = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, head_dim=8)
    return Gemma2ForCausalLM(
        Gemma2Config(vocab_size=50, num_key_value_heads=1, final_logit_softcapping=0.5, **sizes)
    ).eval()


def test_labelled_tokens_have_the_log_probabilities_of_the_models_own_logits(capped):
    ids = torch.arange(24).reshape(3, 8)
    labels = ids.clone()
    labels[0, :5] = labels[1] = labels[2, 2:4] = -100
    mask = torch.ones_like(ids)
    expected = torch.log_softmax(capped(input_ids=ids, attention_mask=mask).logits[:, :-1], -1)
    add_fused_lm_head(capped, outputs=("log_probs", "entropy", "is_top1"))
    project_labelled_only(capped)
    outputs = capped(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True)
    scored = labels[:, 1:] != -100
    assert torch.equal(outputs.label_mask, scored)
    picked = expected.gather(-1, ids[:, 1:, None]).squeeze(-1)
    torch.testing.assert_close(outputs.log_probs, picked * scored, rtol=1e-5, atol=1e-6)
    entropies = -(expected.exp() * expected).sum(-1) * scored
    torch.testing.assert_close(outputs.entropy, entropies, rtol=1e-5, atol=1e-6)
    assert not outputs.is_top1[~scored].any()
    assert torch.equal(capped(input_ids=ids, attention_mask=mask).logits.argmax(-1)[:, :-1], expected.argmax(-1))


def test_a_batch_without_labels_has_a_loss_of_0_that_can_be_differentiated(capped):
    add_fused_lm_head(capped, outputs=("log_probs",))
    project_labelled_only(capped)
    ids = torch.arange(8)[None]
    outputs = capped(
        input_ids=ids, attention_mask=torch.ones_like(ids), labels=torch.full_like(ids, -100), fused_lm_head=True
    )
    outputs.log_probs.sum().backward()
    assert outputs.log_probs.shape == (1, 7)
    assert not outputs.log_probs.any()
    assert not capped.model.layers[0].mlp.up_proj.weight.grad.any()


def test_a_copy_of_a_model_that_was_trained_computes_with_weights_of_its_own(capped):
    ids = torch.arange(8)[None]
    with own_forward_restored(capped):
        add_fused_lm_head(capped, outputs=("log_probs",))
        project_labelled_only(capped)
    twin = copy.deepcopy(capped)
    with torch.no_grad():
        twin.model.embed_tokens.weight.mul_(3)
        assert not torch.equal(twin(input_ids=ids).logits, capped(input_ids=ids).logits)
