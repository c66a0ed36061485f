"""Attention of grouped heads and layers with an adapter compute, faster, what transformers and peft compute."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers.cache_utils import DynamicCache

from agentgym.policy import make_model, make_tokenizer
from agentgym.policy.adapters import new_adapter
from agentgym.policy.checkpoint import load_checkpoint
from agentgym.policy.grouped_attention import GROUPED, use_grouped_attention
from agentgym.policy.key_values import block_of
from agentgym.policy.load_options import LoadOptions, LoraOptions

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
IDS = torch.arange(3, 43).reshape(2, 20)


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(["what is in the box"] * 20, vocab_size=300)


def grouped(tokenizer: Any, kv_heads: int = 2) -> Any:
    return make_model(tokenizer, hidden=32, layers=2, heads=4, kv_heads=kv_heads)


def gradients(model: Any, **inputs: Any) -> dict[str, torch.Tensor]:
    model.zero_grad()
    states = model(**inputs, use_cache=False).logits.float()
    mask = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"])).bool()
    (torch.log_softmax(states, -1)[..., 5] * mask).sum().backward()
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


def close(actual: dict[str, torch.Tensor], other: dict[str, torch.Tensor], share: float) -> bool:
    scale = max(float(value.abs().max()) for value in other.values())
    return actual.keys() == other.keys() and all(
        float((actual[name] - value).abs().max()) <= share * scale for name, value in other.items()
    )


def error(actual: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    return float(sum((actual[name] - value).square().sum() for name, value in other.items()) ** 0.5)


@pytest.mark.parametrize("padded", [False, True])
def test_grouped_attention_has_the_gradient_of_sdpa(tokenizer, padded):
    """Without padding transformers gives no mask: attention is causal."""
    model, inputs = grouped(tokenizer), {"input_ids": IDS}
    if padded:
        inputs["attention_mask"] = torch.ones_like(IDS)
        inputs["attention_mask"][0, :7] = 0
    expected = gradients(model, **inputs)
    use_grouped_attention(model)
    assert model.config._attn_implementation == GROUPED
    assert close(gradients(model, **inputs), expected, 1e-5)


def test_grouped_attention_reads_keys_of_earlier_tokens(tokenizer):
    model = grouped(tokenizer).eval()
    with torch.no_grad():
        expected = model(input_ids=IDS).logits
        use_grouped_attention(model)
        cache = DynamicCache(config=model.config)
        parts = [model(input_ids=part, past_key_values=cache).logits for part in IDS.split([5, 14, 1], 1)]
    torch.testing.assert_close(torch.cat(parts, 1), expected, rtol=1e-4, atol=1e-5)


def test_only_models_whose_heads_share_keys_attend_in_groups(tokenizer, tmp_path):
    plain, eager = grouped(tokenizer, kv_heads=4), grouped(tokenizer)
    eager.set_attn_implementation("eager")
    for model, attention in ((plain, "sdpa"), (eager, "eager")):
        use_grouped_attention(model)
        assert model.config._attn_implementation == attention
    grouped(tokenizer).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert load_checkpoint(tmp_path, device="cpu")[0].config._attn_implementation == GROUPED
    chosen = load_checkpoint(tmp_path, device="cpu", options=LoadOptions(attention="sdpa"))[0]
    assert chosen.config._attn_implementation == "sdpa"
    assert GROUPED not in (tmp_path / "config.json").read_text()


def with_adapters(tokenizer: Any) -> tuple[Any, Any]:
    """The same adapter twice: as peft computes it, and as agentgym does."""
    options = LoraOptions(rank=4, alpha=12)
    configuration = LoraConfig(r=4, lora_alpha=12, target_modules="all-linear", task_type="CAUSAL_LM")
    torch.manual_seed(0)
    of_peft = get_peft_model(grouped(tokenizer), configuration)
    own = new_adapter(grouped(tokenizer), options, base="base", seed=0)
    draws = torch.Generator().manual_seed(0)
    for name, parameter in of_peft.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3, generator=draws)
    own.load_state_dict(of_peft.state_dict())
    return of_peft, own


def test_an_adapter_under_autocast_has_the_gradient_of_peft_up_to_rounding(tokenizer):
    of_peft, own = with_adapters(tokenizer)
    assert close(gradients(own, input_ids=IDS), gradients(of_peft, input_ids=IDS), 0)  # without autocast peft computes
    exact = gradients(of_peft, input_ids=IDS)
    with torch.autocast("cpu", torch.bfloat16):
        assert error(gradients(own, input_ids=IDS), exact) < 2 * error(gradients(of_peft, input_ids=IDS), exact)
        with torch.no_grad(), own.disable_adapter(), of_peft.disable_adapter():
            assert torch.equal(own(input_ids=IDS).logits, of_peft(input_ids=IDS).logits)


def test_no_wide_tensor_is_cast_or_scaled_for_an_adapter(tokenizer):
    _, own = with_adapters(tokenizer)
    with torch.autocast("cpu", torch.bfloat16), torch.profiler.profile(record_shapes=True) as profile:
        own(input_ids=IDS, use_cache=False)
    width = own.config.intermediate_size
    scaled = [each for each in profile.events() if each.name == "aten::mul" and each.input_shapes[1:2] == [[]]]
    assert [each for each in scaled if each.input_shapes[0][-1:] == [4]]
    assert not [each for each in scaled if each.input_shapes[0][-1:] == [width]]


def test_keys_and_values_have_the_dtype_in_which_attention_computes(tokenizer):
    model, cache = grouped(tokenizer).eval(), DynamicCache()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        model(input_ids=IDS, past_key_values=cache)
        assert block_of(cache).dtype == torch.bfloat16
    assert block_of(cache).dtype == torch.float32
