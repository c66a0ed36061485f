"""The copy of a model that samples: its own weights, taken over when told to, and no more memory than that takes."""

from __future__ import annotations

import pytest
import torch
from trl.trainer.utils import add_fused_lm_head

from agentgym.policy import Hermes, TemplateRenderer, TransformersPolicy, make_model, make_tokenizer
from agentgym.policy.adapters import new_adapter
from agentgym.policy.load_options import LoraOptions
from agentgym.training.loss.labelled_head import project_labelled_only
from agentgym.training.stages.streaming import sampling_copy


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(["press the button"] * 20, 300)


def model_of(tokenizer):
    return make_model(tokenizer, hidden=16, layers=1, heads=1, kv_heads=1)


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=torch.arange(20).reshape(2, 10)).logits


def push(model) -> None:
    """What an optimiser does: change the weights that are trained, in place."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)


def test_a_copy_keeps_its_weights_until_it_takes_over_those_of_the_model(tokenizer):
    """Also of a model that a trainer has given a forward pass of its own."""
    model = model_of(tokenizer)
    add_fused_lm_head(model)
    project_labelled_only(model)
    patched = model.forward
    copy = sampling_copy(model)
    assert model.forward is patched
    policy = TransformersPolicy(copy, TemplateRenderer(tokenizer, Hermes()))
    before = logits(model)
    push(model)
    assert not torch.allclose(logits(model), before)
    assert torch.equal(logits(copy), before)
    policy.update_weights(model, version=7)
    assert torch.equal(logits(copy), logits(model))
    assert policy.version == 7
    policy._worker.shutdown()


def test_what_lies_beneath_an_adapter_is_shared(tokenizer):
    """TRL later gives the model a second adapter, for the KL term: it is none of the copy's."""
    model = new_adapter(model_of(tokenizer), LoraOptions(rank=2), base="base", seed=0)
    copy = sampling_copy(model)
    ours, theirs = dict(model.named_parameters()), dict(copy.named_parameters())
    assert ours.keys() == theirs.keys()
    assert {name for name in ours if ours[name] is not theirs[name]} == {name for name in ours if "lora_" in name}
    model.add_adapter("ref", model.peft_config["default"])
    policy = TransformersPolicy(copy, TemplateRenderer(tokenizer, Hermes()))
    push(model)
    assert not torch.allclose(logits(copy), logits(model))
    policy.update_weights(model, version=1)
    assert torch.equal(logits(copy), logits(model))
    policy._worker.shutdown()
