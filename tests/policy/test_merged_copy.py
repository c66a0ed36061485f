"""A sampler's copy of a model with an adapter: the same probabilities without the adapter's layers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from agentgym.messages import Message
from agentgym.policy import Request, Sampling, make_model, make_tokenizer
from agentgym.policy.adapters import has_adapter
from agentgym.policy.local import policy_of
from agentgym.policy.merged_copy import MergedCopy, PackedLinear, can_copy, packs
from agentgym.policy.role_adapters import RoleAdapters

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning"),
    pytest.mark.filterwarnings("ignore:`lora_bias=True` was passed"),
    pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning"),
]


def adapted(tokenizer: Any, **options: Any) -> Any:
    """A model whose adapter changes what it says."""
    model = make_model(tokenizer, hidden=32, layers=2, heads=4, kv_heads=2)
    targets = {"target_modules": ["q_proj", "v_proj", "down_proj"], **options}
    model = get_peft_model(model, LoraConfig(r=4, lora_alpha=16, **targets))
    draws = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name or "lora_embedding_A" in name:
            torch.nn.init.normal_(parameter, std=0.3, generator=draws)
    return model.eval()


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(["what is in the box"] * 20, vocab_size=300)


ROUNDED = {"rtol": 2e-2, "atol": 2e-3}
"""How far logits in bfloat16 may differ, as packed layers may add in another order than plain ones."""

IDS = torch.arange(3, 43).reshape(2, 20)


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=IDS).logits


@pytest.mark.parametrize("options", [{}, {"target_modules": ["embed_tokens", "o_proj"]}, {"use_rslora": True}])
def test_the_copy_computes_what_the_model_does_and_leaves_it_as_it_is(tokenizer, options):
    model = adapted(tokenizer, **options)
    before, weights = logits(model), {name: value.clone() for name, value in model.state_dict().items()}
    merged = MergedCopy(model)
    merged.refresh(1)
    assert not has_adapter(merged.model)
    assert not any("lora" in name for name, _ in merged.model.named_parameters())
    torch.testing.assert_close(logits(merged.model), before, rtol=1e-4, atol=1e-5)
    with torch.no_grad(), model.disable_adapter():
        assert not torch.allclose(model(input_ids=IDS).logits, before, atol=1e-2)
    assert torch.equal(logits(model), before)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in weights.items())


def test_only_adapted_weights_take_memory(tokenizer):
    model = adapted(tokenizer)
    merged = MergedCopy(model).model
    own = {id(parameter) for parameter in model.parameters()}
    separate = {name for name, parameter in merged.named_parameters() if id(parameter) not in own}
    assert separate == {
        f"model.layers.{layer}.{name}.weight"
        for layer in range(2)
        for name in ("self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj")
    }


def test_new_weights_are_merged_once(tokenizer):
    model = adapted(tokenizer)
    merged = MergedCopy(model)
    merged.refresh(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.add_(0.2)
    merged.refresh(1)
    assert not torch.allclose(logits(merged.model), logits(model), atol=1e-3)
    merged.refresh(2)
    torch.testing.assert_close(logits(merged.model), logits(model), rtol=1e-4, atol=1e-5)


def test_under_autocast_weights_are_cast_once_with_the_same_outcome(tokenizer):
    model = make_model(tokenizer, hidden=32, layers=2, heads=4, kv_heads=2)
    model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj"])).eval()  # without an effect yet
    merged = MergedCopy(model, torch.bfloat16)
    merged.refresh(1)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert merged.model.lm_head(torch.zeros(1, 32)).dtype == torch.bfloat16
    assert merged.model.get_input_embeddings().weight.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(logits(merged.model), logits(model), **ROUNDED)


def test_a_model_without_an_adapter_is_cast_once_and_follows_its_training(tokenizer):
    model = make_model(tokenizer, hidden=32, layers=2, heads=4, kv_heads=2).eval()
    assert can_copy(model, torch.bfloat16)
    assert not can_copy(model.to(torch.bfloat16), torch.bfloat16)
    model.to(torch.float32)
    merged = MergedCopy(model, torch.bfloat16)
    for version in range(2):
        merged.refresh(version)
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(logits(merged.model), logits(model), **ROUNDED)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.1)
    with torch.autocast("cpu", torch.bfloat16):
        assert not torch.allclose(logits(merged.model), logits(model), **ROUNDED)


@pytest.mark.skipif(not packs(torch.nn.Linear(2, 2), torch.bfloat16), reason="this processor packs no bfloat16 weights")
def test_layers_computed_in_bfloat16_are_packed_and_no_others(tokenizer):
    model = adapted(tokenizer)
    for dtype, is_packed in ((torch.bfloat16, True), (None, False)):
        kinds = {type(module) for module in MergedCopy(model, dtype).model.modules()}
        assert (PackedLinear in kinds, torch.nn.Linear in kinds) == (is_packed, not is_packed)
    assert not packs(torch.nn.Linear(2, 2, device="meta"), torch.bfloat16)


def test_other_adapters_are_not_copied(tokenizer):
    assert can_copy(adapted(tokenizer))
    assert not can_copy(make_model(tokenizer, hidden=16, layers=1, heads=1, kv_heads=1))
    assert not can_copy(adapted(tokenizer, use_dora=True))
    assert not can_copy(adapted(tokenizer, lora_bias=True))
    of_roles = adapted(tokenizer)
    RoleAdapters(["planner", "executor"]).attach(of_roles)
    assert not can_copy(of_roles)


def test_a_policy_samples_from_the_copy_with_the_weights_of_the_moment(tokenizer):
    """Its log-probabilities are those of the model, before and after a change of the adapter in place."""
    model = adapted(tokenizer)
    policy = policy_of(model, tokenizer, "auto", {})

    def gap() -> float:
        request = Request(messages=(Message("user", "what is in the box"),), sampling=Sampling(seed=3, max_tokens=12))

        async def reply() -> Any:
            return await policy.generate(request)

        answer = asyncio.run(reply())
        prompt = policy.renderer.prompt(request.messages, request.tools)
        ids = torch.tensor([[*prompt, *answer.token_ids]])
        with torch.no_grad():
            logps = model(input_ids=ids).logits[0].float().log_softmax(-1)
        expected = [float(logps[len(prompt) + k - 1, token]) for k, token in enumerate(answer.token_ids)]
        return max(abs(a - b) for a, b in zip(answer.logprobs, expected, strict=True))

    calls: list[int] = []
    for name, module in model.named_modules():
        if name.endswith("lora_A.default"):
            module.register_forward_hook(lambda *_: calls.append(1))
    policy_gap = gap()
    assert policy_gap < 1e-4
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.mul_(-1.0)
    calls.clear()
    assert gap() < 1e-4
    assert len(calls) == 6  # those of the comparison above
    asyncio.run(policy.close())
